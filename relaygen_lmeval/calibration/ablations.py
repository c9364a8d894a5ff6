"""What calibration is worth: one task, one pair, and the same problems with cues found each way."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from lm_eval.api.instance import Instance
from lm_eval.utils import simple_parse_args_string
from scipy.stats import norm, sem

from relaygen_lmeval.calibration import traces as tracing
from relaygen_lmeval.calibration.made import model_id
from relaygen_lmeval.calibration.scoring import score
from relaygen_lmeval.calibration.selection import Rule, choose, selected
from relaygen_lmeval.calibration.settings import relay_options
from relaygen_lmeval.calibration.statistics import ScoredTrace
from relaygen_lmeval.calibration.traces import Trace
from relaygen_lmeval.core.cues import CueTable, MatchRule
from relaygen_lmeval.core.types import RelayRequest, RelayResult, Role
from relaygen_lmeval.cuefile import CueFile, candidate_forms
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.harness.instances import label_of, scored_text
from relaygen_lmeval.harness.model import RelayLM
from relaygen_lmeval.models.pair import Pair
from relaygen_lmeval.options.config import RelayConfig
from relaygen_lmeval.relay import Relay, parse_options

log = logging.getLogger(__name__)

SUBSETS = (10, 40, 160)
LARGE, SMALL, SELECTED = "large alone", "small alone", "selected (rule ci)"
_Z = float(norm.ppf(0.975))


@dataclass(frozen=True)
class Plan:
    """The options of `relaygen ablations`; see its `--help`."""

    model_args: str = ""
    task: str = "relaygen_arithmetic"
    calibration_task: str = "relaygen_arithmetic_calibration"
    limit: int = 500
    documents: int = 160
    repeats: int = 4
    batch_size: int = 8
    timed: int = 50
    log_dir: Path = Path("relaygen_logs/ablations")


@dataclass(frozen=True)
class Contestant:
    """One way to relay.

    Attributes:
        policy: As in `policy=`.
        cues: Those of a relay; none: the large model writes all of the reasoning.
        match: How they match.
        n_traces: What they were found in.
    """

    policy: str
    cues: tuple[str, ...] = ()
    match: MatchRule = "word"
    n_traces: int = 0


def run_ablations(plan: Plan) -> dict[str, Any]:
    """Calibrate in every way, relay the task with each, and compare.

    Returns:
        `settings` and `rows`: by contestant its `cues`, `accuracy` with `accuracy_se`, paired
        differences in accuracy `to_large` and `to_selected` with their errors and 95 % intervals
        on the same problems, `share` of the large model; of the first problems, one at a time,
        mean `e2e_s` and `speedup` over the large model.
    """
    options = simple_parse_args_string(plan.model_args)
    config = parse_options({**options, "policy": "relay", "batch_size": plan.batch_size})
    lm = RelayLM(**relay_options(replace(config, policy="large", log_dir=str(plan.log_dir))))
    try:
        traces = _traces(lm, plan)
        contestants = _contestants(lm.relay.pair, traces)
        task = tracing.load_tasks([plan.task], {}, None)[0]
        instances = _instances(lm, [task], plan.limit)
        requests = _requests(lm, instances)
        results = _relay_all(config, lm.relay.pair, requests, contestants)
        e2e_s = _time_all(config, lm.relay.pair, requests[: plan.timed], contestants)
        scores = {name: _scores(task, instances, of) for name, of in results.items()}
    finally:
        lm.close()
    settings = {
        "large": model_id(config.pretrained),
        "small": model_id(str(config.small)),
        "task": plan.task,
        "n": len(instances),
        "calibration_task": plan.calibration_task,
        "traces": len(traces),
        "batch_size": plan.batch_size,
        "timed": min(plan.timed, len(instances)),
    }
    return {"settings": settings, "rows": _rows(contestants, results, scores, e2e_s)}


def ablations_markdown(report: Mapping[str, Any]) -> str:
    """The table, with what is within noise said plainly."""
    settings, rows = report["settings"], report["rows"]
    note = (
        f"{settings['large']} and {settings['small']} on {settings['n']} problems of "
        f"{settings['task']}, greedy, batch {settings['batch_size']}; cues from "
        f"{settings['traces']} traces of {settings['calibration_task']}. Accuracy in % with its "
        "standard error; differences in points, paired by problem, with their 95 % interval; "
        f"E2E: mean of the first {settings['timed']} problems, one at a time, all rows in turn for "
        "each problem; speedup: that of large over that of the row."
    )
    lines = [
        "| cues | n | accuracy | less large's | less selected's | large's share | E2E s | speedup |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        *(_line(name, row) for name, row in rows.items()),
        "",
        note,
        "",
        *_verdicts(rows),
    ]
    return "\n".join(lines) + "\n"


def _traces(lm: RelayLM, plan: Plan) -> list[Trace]:
    """The first repeat of every document comes first, then the second, and so on."""
    path = lm.run.journal.path
    header, _ = tracing.read_records(path)
    info = lm.get_model_info()["relay"]["models"][0]
    tracing.check_model(header, path, info)
    tasks = tracing.load_tasks([plan.calibration_task], tracing.GEN_KWARGS, None)
    instances = _instances(lm, tasks, plan.documents)
    records = tracing.write_traces(lm, instances, plan.repeats)
    traces = tracing.read_traces(lm.relay.pair, records, path)
    return sorted(traces, key=lambda t: (t.label.repeat, t.label.task, t.label.doc_id))


def _instances(lm: RelayLM, tasks: Sequence[Any], limit: int) -> list[Instance]:
    template = bool(lm.relay.pair.large.tokenizer.chat_template)
    return tracing.build_instances(lm, tasks, limit=limit, apply_chat_template=template)


def _contestants(pair: Pair, traces: Sequence[Trace]) -> dict[str, Contestant]:
    by_small, by_large = score(pair, traces, "small"), score(pair, traces, "large")
    ci = _cues(by_small, "ci")
    n = len(traces)
    few = {
        f"rule ci, {k} traces": Contestant("relay", _cues(by_small[:k], "ci"), n_traces=k)
        for k in SUBSETS
        if k < n
    }
    return {
        LARGE: Contestant("large"),
        SMALL: Contestant("small"),
        SELECTED: Contestant("relay", ci, n_traces=n),
        "rule paper": Contestant("relay", _cues(by_small, "paper"), n_traces=n),
        "all candidates": Contestant("relay", candidate_forms()),
        "rule ci, margins by large": Contestant("relay", _cues(by_large, "ci"), n_traces=n),
        "selected, matched as substrings": Contestant("relay", ci, "substring", n),
        **few,
    }


def _cues(scored: Sequence[ScoredTrace], rule: Rule) -> tuple[str, ...]:
    return selected(choose(scored, CueTable(candidate_forms()), rule)[1])


def _requests(lm: RelayLM, instances: Sequence[Instance]) -> list[RelayRequest]:
    return lm.requests_of(instances, [label_of(instance) for instance in instances])


def _relay_all(
    config: RelayConfig,
    pair: Pair,
    requests: Sequence[RelayRequest],
    contestants: Mapping[str, Contestant],
) -> dict[str, list[RelayResult]]:
    results = {}
    for name, of in contestants.items():
        relay = _relay(config, pair, of)
        results[name] = relay.run(requests)
        relay.close()
        log.info("%s: %d requests relayed", name, len(requests))
    return results


def _time_all(
    config: RelayConfig,
    pair: Pair,
    requests: Sequence[RelayRequest],
    contestants: Mapping[str, Contestant],
) -> dict[str, list[float]]:
    """Times of single requests: all take turns, so that a slow moment of the machine is shared."""
    alone = replace(config, batch_size=1)
    relays = {name: _relay(alone, pair, of) for name, of in contestants.items()}
    e2e_s: dict[str, list[float]] = {name: [] for name in relays}
    for relay in relays.values():
        relay.run(requests[:1])  # the first steps of a model are slow
    for request in requests:
        for name, relay in relays.items():
            [result] = relay.run([request])
            e2e_s[name].append(result.ended_s - result.started_s)
    for relay in relays.values():
        relay.close()
    return e2e_s


def _relay(config: RelayConfig, pair: Pair, of: Contestant) -> Relay:
    policy = of.policy if of.cues or of.policy == "small" else "large"
    cue_file = None
    if policy == "relay":
        cue_file = CueFile("ablation", config.pretrained, str(config.small), of.match, of.cues)
    return Relay(replace(config, policy=policy, cue_match=None), pair, cue_file)


def _scores(
    task: Any, instances: Sequence[Instance], results: Sequence[RelayResult]
) -> list[float]:
    """The task's first metric, through its own filters and its own scoring."""
    for instance, result in zip(instances, results, strict=True):
        text = scored_text(result.answer, result.request.until, result.flags)
        instance.resps, instance.filtered_resps = [text], {}
    task.apply_filters()
    name = next(iter(instances[0].filtered_resps))
    values = [
        next(iter(task.process_results(i.doc, [i.filtered_resps[name]]).values()))
        for i in instances
    ]
    if not all(isinstance(value, int | float) for value in values):
        raise ConfigError(
            f"task {task.config.task} scores no single problem with a number: it cannot be compared"
        )
    return [float(value) for value in values]


def _rows(
    contestants: Mapping[str, Contestant],
    results: Mapping[str, Sequence[RelayResult]],
    scores: Mapping[str, Sequence[float]],
    e2e_s: Mapping[str, Sequence[float]],
) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "cues": list(of.cues),
            "n_traces": of.n_traces,
            "accuracy": mean(scores[name]),
            "accuracy_se": float(sem(scores[name])),
            "to_large": _difference(scores[name], scores[LARGE]),
            "to_selected": _difference(scores[name], scores[SELECTED]),
            "share": _share(results[name]),
            "tokens_mean": mean(r.n_tokens for r in results[name]),
            "e2e_s": mean(e2e_s[name]),
            "speedup": mean(e2e_s[LARGE]) / mean(e2e_s[name]),
        }
        for name, of in contestants.items()
    }


def _difference(a: Sequence[float], b: Sequence[float]) -> dict[str, float]:
    """Of the means, paired by problem, with its error and 95 % interval."""
    each = np.array(a) - np.array(b)
    difference, error = float(each.mean()), float(sem(each))
    low, high = difference - _Z * error, difference + _Z * error
    return {"mean": difference, "se": error, "low": low, "high": high}


def _share(results: Sequence[RelayResult]) -> float:
    return sum(r.n_tokens_by(Role.LARGE) for r in results) / sum(r.n_tokens for r in results)


def _line(name: str, row: Mapping[str, Any]) -> str:
    cells = [
        name,
        str(len(row["cues"])) if row["cues"] else "-",
        f"{100 * row['accuracy']:.1f} ± {100 * row['accuracy_se']:.1f}",
        _interval(row["to_large"]) if name != LARGE else "-",
        _interval(row["to_selected"]) if name != SELECTED else "-",
        f"{100 * row['share']:.0f} %",
        f"{row['e2e_s']:.3f}",
        f"{row['speedup']:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def _interval(difference: Mapping[str, float]) -> str:
    mean_, low, high = (100 * difference[name] for name in ("mean", "low", "high"))
    return f"{mean_:+.1f} ({low:+.1f} to {high:+.1f})"


def _verdicts(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Which rows differ from the selected cues' accuracy, and which do not as far as is known."""
    others = [name for name in rows if name != SELECTED]
    within = [n for n in others if _holds_zero(rows[n]["to_selected"])]
    beyond = [n for n in others if n not in within]
    empty = [n for n in others if rows[n]["n_traces"] and not rows[n]["cues"]]
    lines = [f"Within noise of the selected cues' accuracy: {'; '.join(within) or 'none'}."]
    lines.append(f"Beyond noise: {'; '.join(beyond) or 'none'}.")
    if empty:
        lines.append(f"No candidate passed, so the large model wrote all: {'; '.join(empty)}.")
    return lines


def _holds_zero(difference: Mapping[str, float]) -> bool:
    return difference["low"] <= 0 <= difference["high"]
