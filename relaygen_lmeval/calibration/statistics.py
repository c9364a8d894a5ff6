"""How sure the small model is after each candidate, and how sure that is known.

A trace is the unit that is drawn: its sentences resemble each other, so errors are clustered by
trace and the bootstrap draws whole traces.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.margins import Occurrence, TokenRange, occurrences, union
from relaygen_lmeval.report.intervals import ratio

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ScoredTrace:
    """The reasoning of one trace with its margins.

    Attributes:
        texts: Its tokens, of the model that wrote it.
        margins: One a token of the model that scored it, in [0, 1].
        scored_texts: The tokens of the model that scored it, where they are others.
    """

    texts: tuple[str, ...]
    margins: tuple[float, ...]
    scored_texts: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class CueStatistics:
    """What was measured for one candidate.

    Attributes:
        occurrences: How often it would have handed over.
        traces: In how many traces.
        mean_margin: Mean over occurrences of the mean margin up to the end of the sentence.
        difference: `mean_margin` less the mean over all tokens of all traces.
        standard_error: Of `mean_margin`, clustered by trace; `None` with fewer than two traces.
        difference_error: Of `difference`, clustered alike.
        ci_low: Lower end of the 95 % bootstrap interval of `mean_margin`, traces drawn whole.
        ci_high: Its upper end.
        share: Part of all tokens that this cue alone would hand over.
    """

    occurrences: int
    traces: int
    mean_margin: float | None
    difference: float | None
    standard_error: float | None
    difference_error: float | None
    ci_low: float | None
    ci_high: float | None
    share: float


@dataclass(frozen=True, slots=True)
class Measured:
    """The statistics of all candidates.

    Attributes:
        cues: In the order of the candidates.
        global_mean: Mean margin over all tokens of the reasoning, the prompt excluded.
        n_tokens: These tokens.
        n_traces: The traces they come from.
        sentence_sd: Spread of a sentence's margin about its cue's mean, over all candidates.
    """

    cues: Mapping[str, CueStatistics]
    global_mean: float
    n_tokens: int
    n_traces: int
    sentence_sd: float = 0.0


def measure(
    traces: Sequence[ScoredTrace], table: CueTable, *, seed: int = 0, max_small_tokens: int = 128
) -> Measured:
    """Measure every cue of a table in traces.

    Args:
        traces: At least one, with at least one token in all.
        table: The candidates.
        seed: Of the bootstrap; a cue's interval does not depend on the other candidates.
        max_small_tokens: Bound of what one occurrence hands over.
    """
    grouped: dict[str, list[Occurrence]] = defaultdict(list)
    for number, trace in enumerate(traces):
        for found in occurrences(
            trace.texts, trace.margins, table, number, scored_texts=trace.scored_texts
        ):
            grouped[found.cue].append(found)
    sums = np.array([sum(trace.margins) for trace in traces])
    counts = np.array([len(trace.margins) for trace in traces], dtype=float)
    n_written = sum(len(trace.texts) for trace in traces)
    cues = {
        cue: _describe(
            grouped[cue],
            sums,
            counts,
            share=_n_handed_over(grouped[cue], max_small_tokens) / n_written,
            rng=np.random.default_rng([seed, crc32(cue.encode())]),
        )
        for cue in table.cues
    }
    return Measured(
        cues,
        global_mean=float(sums.sum() / counts.sum()),
        n_tokens=int(counts.sum()),
        n_traces=len(traces),
        sentence_sd=_pooled_sd([[o.mean_margin for o in of] for of in grouped.values()]),
    )


def clustered_error(sums: Floats, counts: Floats) -> float | None:
    """Standard error of `sums.sum() / counts.sum()`, one entry a cluster.

    The linearised error of a ratio of means: that of a regression on a constant with errors
    clustered, its correction for few clusters included.

    Args:
        sums: Sum of the values of each cluster.
        counts: Number of its values; clusters without any are not to be given.

    Returns:
        `None` with fewer than two clusters.

    Source:
        Cochran, Sampling Techniques, 3rd ed., section 6.4; `cov_type="cluster"` of statsmodels.
    """
    return _error_of((sums - sums.sum() / counts.sum() * counts) / counts.sum(), len(sums))


def _error_of(influence: Floats, n_clusters: int) -> float | None:
    """From each cluster's pull on the estimate; `n_clusters` of them hold information."""
    if n_clusters < 2:
        return None
    return float(np.sqrt(n_clusters / (n_clusters - 1) * np.square(influence).sum()))


def _pooled_sd(groups: Sequence[Sequence[float]]) -> float:
    """Standard deviation within groups, as an analysis of variance pools it; 0 if there is none."""
    groups = [group for group in groups if len(group) > 1]
    n = sum(map(len, groups)) - len(groups)
    squares = sum((len(group) - 1) * float(np.var(group, ddof=1)) for group in groups)
    return float(np.sqrt(squares / n)) if n else 0.0


def _describe(
    found: Sequence[Occurrence],
    token_sums: Floats,
    token_counts: Floats,
    *,
    share: float,
    rng: np.random.Generator,
) -> CueStatistics:
    if not found:
        return CueStatistics(0, 0, None, None, None, None, None, None, share)
    of = np.array([o.trace for o in found])
    n = len(token_sums)
    every_sum: Floats = np.bincount(of, [o.mean_margin for o in found], n).astype(np.float64)
    every_count: Floats = np.bincount(of, minlength=n).astype(np.float64)
    has = every_count > 0
    sums, counts = every_sum[has], every_count[has]
    mean, overall = sums.sum() / counts.sum(), token_sums.sum() / token_counts.sum()
    pull = (every_sum - mean * every_count) / counts.sum()
    pull_overall = (token_sums - overall * token_counts) / token_counts.sum()
    low, high = _interval(sums, counts, rng)
    return CueStatistics(
        occurrences=len(found),
        traces=len(sums),
        mean_margin=float(mean),
        difference=float(mean - overall),
        standard_error=clustered_error(sums, counts),
        # Clusters without the cue know nothing of its mean: they do not count as evidence.
        difference_error=_error_of(pull - pull_overall, len(sums)),
        ci_low=low,
        ci_high=high,
        share=share,
    )


def _interval(
    sums: Floats, counts: Floats, rng: np.random.Generator
) -> tuple[float | None, float | None]:
    if len(sums) < 2:
        return None, None
    interval = ratio(sums, counts, rng)
    return interval.low, interval.high


def _n_handed_over(found: Sequence[Occurrence], max_small_tokens: int) -> int:
    """Tokens in reach of a cue; those of two occurrences in one sentence count once."""
    by_trace: dict[int, list[TokenRange]] = defaultdict(list)
    for o in found:
        last = min(o.last, o.first + max_small_tokens - 1)
        by_trace[o.trace].append(TokenRange(o.first, last))
    return sum(map(union, by_trace.values()))
