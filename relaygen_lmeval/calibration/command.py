"""`relaygen calibrate`: from a task to the cue file of a pair, its pictures and its table."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from relaygen_lmeval.calibration import traces as tracing
from relaygen_lmeval.calibration.candidates import discover, read_candidates
from relaygen_lmeval.calibration.forecast import Forecast, forecast
from relaygen_lmeval.calibration.made import describe_pair, make_cue_file, model_id
from relaygen_lmeval.calibration.pictures import draw_cues, draw_trace, pick_trace
from relaygen_lmeval.calibration.scoring import score
from relaygen_lmeval.calibration.selection import Decision, choose, selected
from relaygen_lmeval.calibration.settings import Settings, check, relay_config, relay_options
from relaygen_lmeval.calibration.speed import step_s as measure_step_s
from relaygen_lmeval.calibration.statistics import Measured, ScoredTrace
from relaygen_lmeval.calibration.traces import Record, Trace
from relaygen_lmeval.core.margins import handovers
from relaygen_lmeval.core.types import Role
from relaygen_lmeval.cuefile import CueFile, candidate_forms, write_cue_file
from relaygen_lmeval.errors import CalibrationError
from relaygen_lmeval.harness.model import RelayLM
from relaygen_lmeval.models.assembly import make_pair
from relaygen_lmeval.models.pair import Pair
from relaygen_lmeval.options.config import RelayConfig

log = logging.getLogger(__name__)

_DIGITS = 6  # of a statistic in the file: more would differ between machines


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
    check(settings)
    forms = read_candidates(settings.candidates) if settings.candidates else candidate_forms()
    config = relay_config(settings)
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
        settings.table(forms),
        settings.rule,
        alpha=settings.alpha,
        min_occurrences=settings.min_occurrences,
        seed=settings.seed,
        max_small_tokens=config.max_small_tokens,
    )
    if not selected(decisions):
        raise CalibrationError(_nothing_selected(measured, settings, path))
    cue_file = make_cue_file(settings, config, pair, header, records, measured, decisions)
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


def _records(settings: Settings, config: RelayConfig) -> tuple[Pair, Record, list[Record], Path]:
    """The models, and the traces of a journal or of a run that is made or continued here."""
    if settings.traces is not None:
        header, records = tracing.read_records(settings.traces)
        pair = make_pair(config)
        tracing.check_model(header, settings.traces, describe_pair(config, pair)["large"])
        return pair, header, records, settings.traces
    gen_kwargs = {**tracing.GEN_KWARGS, **settings.gen_kwargs}
    tasks = tracing.load_tasks(settings.tasks, gen_kwargs, settings.num_fewshot)
    lm = RelayLM(**relay_options(config))
    path = lm.run.journal.path
    try:
        header, _ = tracing.read_records(path)
        pair = lm.relay.pair
        tracing.check_model(header, path, describe_pair(config, pair)["large"])
        template = settings.apply_chat_template
        if template is None:
            template = bool(pair.large.tokenizer.chat_template)
        instances = tracing.build_instances(
            lm, tasks, limit=settings.limit, apply_chat_template=template
        )
        return pair, header, tracing.write_traces(lm, instances, settings.repeats), path
    finally:
        lm.close()


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
    table = settings.table(selected(decisions))
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
