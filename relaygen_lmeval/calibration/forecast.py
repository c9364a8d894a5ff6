"""What a table of cues is expected to do, from finished traces and the models' step times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from relaygen_lmeval.calibration.traces import Trace
from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.margins import handovers
from relaygen_lmeval.core.types import Role


@dataclass(frozen=True, slots=True)
class Forecast:
    """What to expect, were the small model to write what the large one wrote.

    Attributes:
        handed_over: Part of the reasoning's tokens that the small model writes.
        share: The large model's part of all tokens.
        handoffs_per_1000: Changes of the writer in 1000 tokens.
        speedup: Over the large model alone, at batch 1.
    """

    handed_over: float
    share: float
    handoffs_per_1000: float
    speedup: float


def forecast(
    traces: Sequence[Trace],
    table: CueTable,
    step_s: Mapping[Role, float],
    *,
    answer_by: Role = Role.SMALL,
    min_large_tokens: int = 5,
    max_small_tokens: int = 128,
) -> Forecast:
    """Relay finished traces on paper.

    A token costs one step of its writer, and so does the beginning of every segment, where the
    model reads what the other wrote. In truth the small model writes other words, of another
    number: this is an expectation and no measurement.

    Args:
        traces: At least one.
        table: The cues.
        step_s: Time of one decode step of each model, seconds.
        answer_by: Who writes the answers.
        min_large_tokens: As at run time.
        max_small_tokens: As at run time.
    """
    ranges = [handovers(t.texts, table, min_large_tokens, max_small_tokens) for t in traces]
    n_handed = sum(tokens.n_tokens for trace in ranges for tokens in trace)
    n_reasoning = sum(len(trace.texts) for trace in traces)
    n_answer = sum(trace.n_answer for trace in traces)
    n = {Role.SMALL: n_handed, Role.LARGE: n_reasoning - n_handed}
    n[answer_by] += n_answer
    n_ranges = sum(map(len, ranges))
    n_seams = 2 * n_ranges + len(traces)
    alone_s = (n_reasoning + n_answer) * step_s[Role.LARGE]
    relay_s = sum(
        (n[role] + n_segments) * step_s[role]
        for role, n_segments in (
            (Role.LARGE, n_ranges + len(traces)),
            (Role.SMALL, n_ranges + len(traces) * (answer_by is Role.SMALL)),
        )
    )
    return Forecast(
        handed_over=n_handed / n_reasoning,
        share=n[Role.LARGE] / sum(n.values()),
        handoffs_per_1000=1000 * n_seams / sum(n.values()),
        speedup=alone_s / relay_s,
    )
