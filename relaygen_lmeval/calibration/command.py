"""`relaygen calibrate`: from a task to the cue file of a pair, its pictures and its table."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from lm_eval.utils import simple_parse_args_string
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from relaygen_lmeval import __version__
from relaygen_lmeval.assembly import make_pair
from relaygen_lmeval.calibration import traces as tracing
from relaygen_lmeval.calibration.candidates import discover, read_candidates
from relaygen_lmeval.calibration.forecast import Forecast, forecast
from relaygen_lmeval.calibration.pictures import draw_cues, draw_trace, pick_trace
from relaygen_lmeval.calibration.scoring import MARGINS_BY, MarginsBy, score
from relaygen_lmeval.calibration.selection import RULES, Decision, Rule, choose, selected
from relaygen_lmeval.calibration.speed import step_s as measure_step_s
from relaygen_lmeval.calibration.statistics import Measured, ScoredTrace
from relaygen_lmeval.calibration.traces import Record, Trace
from relaygen_lmeval.config import RelayConfig
from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.margins import handovers
from relaygen_lmeval.core.types import Role
from relaygen_lmeval.cuefile import CueFile, candidate_forms, write_cue_file
from relaygen_lmeval.demo import demo_path
from relaygen_lmeval.errors import CalibrationError, ConfigError
from relaygen_lmeval.harness import RelayLM
from relaygen_lmeval.pair import Pair
from relaygen_lmeval.provenance import describe_model
from relaygen_lmeval.relay import parse_options

log = logging.getLogger(__name__)

_DIGITS = 6  # of a statistic in the file: more would differ between machines


@dataclass(frozen=True)
class Settings:
    """The options of `relaygen calibrate`; see its `--help`."""

    output: Path
    model_args: str = ""
    tasks: tuple[str, ...] = ()
    limit: int | None = None
    repeats: int = 4
    batch_size: int = 8
    num_fewshot: int | None = None
    apply_chat_template: bool | None = None
    gen_kwargs: Mapping[str, Any] = field(default_factory=dict)
    log_dir: Path | None = None
    traces: Path | None = None
    margins_by: MarginsBy = "small"
    candidates: Path | None = None
    discover: bool = False
    rule: Rule = "ci"
    alpha: float = 0.05
    min_occurrences: int = 10
    seed: int = 1234
    match: str = "word"
    overwrite: bool = False
    pictures: bool = True


@dataclass(frozen=True)
class Calibration:
    """What a calibration found.

    Attributes:
        cue_file: As it was written.
        measured: The statistics of all candidates.
        decisions: On each of them.
        expected: What the cues should do.
        step_s: Time of one step of each model, seconds.
    """

    cue_file: CueFile
    measured: Measured
    decisions: Mapping[str, Decision]
    expected: Forecast
    step_s: Mapping[Role, float]


def calibrate(settings: Settings) -> Calibration:
    """Find the cues of a pair; what can be refused is refused before a model is loaded.

    Raises:
        CalibrationError: An output that exists, or traces in which no candidate passes.
        TraceError: Traces that are missing, too few, or another model's.
        ConfigError: An option that is wrong.
    """
    _check(settings)
    forms = read_candidates(settings.candidates) if settings.candidates else candidate_forms()
    config = _config(settings)
    pair, header, records, path = _records(settings, config)
    if settings.margins_by == "both" and not pair.shares_ids:
        raise CalibrationError(
            "--margins-by both needs two models with one tokenizer: choose small or large"
        )
    traces = tracing.read_traces(pair, records, path)
    scored = score(pair, traces, settings.margins_by)
    if settings.discover:
        texts = [trace.text for trace in traces]
        found = discover(texts, min_occurrences=settings.min_occurrences)
        forms = tuple(dict.fromkeys((*forms, *found)))
    measured, decisions = choose(
        scored,
        _table(forms, settings),
        settings.rule,
        alpha=settings.alpha,
        min_occurrences=settings.min_occurrences,
        seed=settings.seed,
        max_small_tokens=config.max_small_tokens,
    )
    if not selected(decisions):
        raise CalibrationError(_nothing_selected(measured, settings, path))
    cue_file = _cue_file(settings, config, pair, header, records, measured, decisions)
    settings.output.parent.mkdir(parents=True, exist_ok=True)
    write_cue_file(cue_file, settings.output)
    if settings.pictures:
        _draw(settings, config, traces, scored, measured, decisions)
    step_s = {role: measure_step_s(pair[role]) for role in Role}
    expected = forecast(
        traces,
        cue_file.table(),
        step_s,
        answer_by=Role(config.answer_by),
        min_large_tokens=config.min_large_tokens,
        max_small_tokens=config.max_small_tokens,
    )
    return Calibration(cue_file, measured, decisions, expected, step_s)


def print_calibration(found: Calibration, settings: Settings, console: Console) -> None:
    """Print the table of all candidates that occur, and what to expect of the selected."""

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    measured, expected, step_s = found.measured, found.expected, found.step_s
    say(
        f"{measured.n_traces} traces, {measured.n_tokens:,} tokens of reasoning, global mean margin "
        f"{measured.global_mean:.4f}"
    )
    console.print(calibration_table(found))
    say("Not selected:")
    for cue, decision in found.decisions.items():
        if measured.cues[cue].occurrences and not decision.selected:
            say(f"  {_shown(cue)}: {decision.reason}")
    n_unseen = sum(not s.occurrences for s in measured.cues.values())
    say(f"  {n_unseen} of {len(measured.cues)} candidates do not occur in the traces")
    say(
        f"Expected: the small model writes {expected.handed_over:.1%} of the reasoning's tokens, "
        f"the large one {expected.share:.1%} of all; with steps of "
        f"{1000 * step_s[Role.LARGE]:.2f} ms (large) and {1000 * step_s[Role.SMALL]:.2f} ms (small)"
        f" that is {expected.speedup:.2f} times as fast as the large model alone."
    )
    say(f"Written: {settings.output}")


def calibration_table(found: Calibration) -> Table:
    """The statistics of all candidates that occur, the selected first."""
    measured = found.measured
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("cue", no_wrap=True)
    for name in ("n", "traces", "mean", "difference", "95 %", "share", "kept"):
        table.add_column(name, justify="right", no_wrap=True)
    shown = [(cue, s) for cue, s in measured.cues.items() if s.occurrences]
    shown.sort(key=lambda item: (not found.decisions[item[0]].selected, -(item[1].difference or 0)))
    for cue, s in shown:
        is_selected = found.decisions[cue].selected
        error = "-" if s.difference_error is None else f"{s.difference_error:.3f}"
        table.add_row(
            _shown(cue),
            str(s.occurrences),
            str(s.traces),
            f"{s.mean_margin:.3f}",
            f"{s.difference:+.3f}±{error}",
            "-" if s.ci_low is None else f"{s.ci_low:.3f}-{s.ci_high:.3f}",
            f"{s.share:.1%}",
            "yes" if is_selected else "no",
            style="bold" if is_selected else None,
        )
    return table


def _shown(cue: str) -> str:
    return cue if cue.strip() == cue else repr(cue)


def _check(settings: Settings) -> None:
    output = settings.output
    if output.exists() and not settings.overwrite:
        raise CalibrationError(f"{output} exists and is kept; name another --output or --overwrite")
    if output.suffix != ".json":
        raise CalibrationError(f"--output {output} must end in .json: it is a cue file")
    if settings.traces is None and not settings.tasks:
        raise ConfigError("name the task to calibrate on with --tasks, or finished --traces")
    if settings.traces is not None and not settings.traces.is_file():
        raise CalibrationError(f"--traces {settings.traces} is no file; name a journal.jsonl")
    for name, value, known in (
        ("--rule", settings.rule, RULES),
        ("--margins-by", settings.margins_by, MARGINS_BY),
        ("--match", settings.match, ("word", "substring")),
    ):
        if value not in known:
            raise ConfigError(f"{name} {value} is not one of {', '.join(known)}")
    if not 0 < settings.alpha < 1:
        raise ConfigError(f"--alpha {settings.alpha} must lie between 0 and 1")
    for name, number in (("--limit", settings.limit), ("--repeats", settings.repeats)):
        if number is not None and number < 1:
            raise ConfigError(f"{name} {number} must be at least 1: there would be no traces")


def _config(settings: Settings) -> RelayConfig:
    options = {"seed": settings.seed, **simple_parse_args_string(settings.model_args)}
    options.pop("policy", None)  # the traces are the large model's, whatever a run would be
    config = parse_options({**options, "policy": "relay", "batch_size": settings.batch_size})
    log_dir = config.log_dir or str(
        settings.log_dir or Path("relaygen_logs") / "calibrate" / settings.output.stem
    )
    if config.engine == "vllm":
        raise ConfigError(
            "a calibration asks its servers after the traces, too: start them with `relaygen serve` "
            "and give engine=server with their URLs"
        )
    return replace(config, policy="large", log_dir=log_dir)


def _records(settings: Settings, config: RelayConfig) -> tuple[Pair, Record, list[Record], Path]:
    """The models, and the traces of a journal or of a run that is made or continued here."""
    if settings.traces is not None:
        header, records = tracing.read_records(settings.traces)
        pair = make_pair(config)
        tracing.check_model(header, settings.traces, _described(config, pair)["large"])
        return pair, header, records, settings.traces
    gen_kwargs = {**tracing.GEN_KWARGS, **settings.gen_kwargs}
    tasks = tracing.load_tasks(settings.tasks, gen_kwargs, settings.num_fewshot)
    lm = RelayLM(**relay_options(config))
    path = lm.run.journal.path
    try:
        header, _ = tracing.read_records(path)
        pair = lm.relay.pair
        tracing.check_model(header, path, _described(config, pair)["large"])
        template = settings.apply_chat_template
        if template is None:
            template = bool(pair.large.tokenizer.chat_template)
        instances = tracing.build_instances(
            lm, tasks, limit=settings.limit, apply_chat_template=template
        )
        return pair, header, tracing.write_traces(lm, instances, settings.repeats), path
    finally:
        lm.close()


def relay_options(config: RelayConfig) -> dict[str, Any]:
    """The options that make this configuration again."""
    options = {k: v for k, v in asdict(config).items() if not k.endswith("_options")}
    small = {f"small_{k}": v for k, v in config.small_options.items()}
    return {**{k: v for k, v in options.items() if v is not None}, **config.large_options, **small}


def _table(forms: Sequence[str], settings: Settings) -> CueTable:
    return CueTable(tuple(forms), "substring" if settings.match == "substring" else "word")


def _described(config: RelayConfig, pair: Pair) -> dict[str, dict[str, Any]]:
    names = {Role.LARGE: config.pretrained, Role.SMALL: str(config.small)}
    return {
        role.value: describe_model(role, pair[role].get_model_info(), names[role]) for role in Role
    }


def _cue_file(
    settings: Settings,
    config: RelayConfig,
    pair: Pair,
    header: Record,
    records: Sequence[Record],
    measured: Measured,
    decisions: Mapping[str, Decision],
) -> CueFile:
    statistics = {
        cue: {
            **{k: round(v, _DIGITS) if isinstance(v, float) else v for k, v in asdict(s).items()},
            **asdict(decisions[cue]),
        }
        for cue, s in measured.cues.items()
    }
    return CueFile(
        name=settings.output.stem,
        large=model_id(config.pretrained),
        small=model_id(str(config.small)),
        match=_table((), settings).match,
        cues=selected(decisions),
        statistics=statistics,
        source=_source(settings, config, pair, header, records, measured),
    )


def _source(
    settings: Settings,
    config: RelayConfig,
    pair: Pair,
    header: Record,
    records: Sequence[Record],
    measured: Measured,
) -> dict[str, Any]:
    """Where the cues come from; all of it follows from the traces and the options."""
    described = _described(config, pair)
    models = {
        role.value: {
            "name": model_id(name),
            "sha": described[role.value].get("sha") or "",
            "dtype": described[role.value].get("dtype"),
            "tokenizer": tokenizer_hash(pair[role].tokenizer),
        }
        for role, name in ((Role.LARGE, config.pretrained), (Role.SMALL, str(config.small)))
    }
    return {
        "made_by": "relaygen calibrate",
        "version": __version__,
        "date": str(header.get("time", ""))[:10],
        "models": models,
        "task": sorted({record["task"] for record in records}),
        "n": len({(record["task"], record["doc_id"]) for record in records}),
        "repeats": 1 + max(record["repeat"] for record in records),
        "traces": measured.n_traces,
        "tokens": measured.n_tokens,
        "global_mean": round(measured.global_mean, _DIGITS),
        "sampling": records[0].get("sampling", "unknown"),
        "max_tokens": records[0]["max_tokens"],
        "seed": header.get("config", {}).get("seed"),
        "bootstrap_seed": settings.seed,
        "rule": settings.rule,
        "alpha": settings.alpha,
        "min_occurrences": settings.min_occurrences,
        "margins_by": settings.margins_by,
        "discover": settings.discover,
    }


def tokenizer_hash(tokenizer: Any) -> str:
    """A hash of all that turns text into ids."""
    content: Any = sorted(tokenizer.get_vocab().items())
    if getattr(tokenizer, "is_fast", False):
        content = json.loads(tokenizer.backend_tokenizer.to_str())
        for setting in ("padding", "truncation"):  # of the last call, not of the tokenizer
            content.pop(setting, None)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def model_id(name: str) -> str:
    """A hub name, or the name of a folder; where it lies is nobody's business."""
    folder = Path(name).expanduser()
    if not folder.is_dir():
        return name
    folder = folder.resolve()
    return f"demo/{folder.name}" if folder.parent == demo_path().resolve() else folder.name


def _nothing_selected(measured: Measured, settings: Settings, path: Path) -> str:
    seen = [(s.difference, cue) for cue, s in measured.cues.items() if s.difference is not None]
    if not seen:
        found = f"none of {len(measured.cues)} candidates occurs"
        todo = "try --discover or --candidates"
    else:
        best, cue = max(seen)
        found = f"no candidate passes rule {settings.rule}; the best is {cue!r} at {best:+.3f}"
        todo = "ask for more traces with --limit or --repeats, or try --discover or --rule mean"
    return (
        f"{found} in {measured.n_traces} traces (global mean margin {measured.global_mean:.3f}); "
        f"{todo}; nothing is written, the traces stay in {path}"
    )


def _draw(
    settings: Settings,
    config: RelayConfig,
    traces: Sequence[Trace],
    scored: Sequence[ScoredTrace],
    measured: Measured,
    decisions: Mapping[str, Decision],
) -> None:
    names = f"{model_id(config.pretrained)} and {model_id(str(config.small))}"
    by = "the lesser of both models" if settings.margins_by == "both" else settings.margins_by
    base = settings.output.with_suffix("")
    title = f"{names}: margins by {by}, {measured.n_traces} traces, rule {settings.rule}"
    draw_cues(measured, decisions, title, base.with_suffix(".png"))
    table = _table(selected(decisions), settings)
    least, most = config.min_large_tokens, config.max_small_tokens
    handed = [handovers(trace.texts, table, least, most) for trace in traces]
    number = pick_trace(handed, [len(trace.texts) for trace in traces])
    trace = scored[number]
    if trace.scored_texts is not None:
        return  # its margins are of other tokens than those that are handed over
    label = traces[number].label
    title = f"{names}: {label.task}, document {label.doc_id}, repeat {label.repeat} (shaded: handed over)"
    path = base.with_name(f"{base.name}_trace.png")
    draw_trace(trace.texts, trace.margins, handed[number], title, path)
