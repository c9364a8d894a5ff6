"""Latency of a request from the time stamps of its tokens; all in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from relaygen_lmeval.core.types import RelayResult


@dataclass(frozen=True, slots=True)
class Latency:
    """Times of one request.

    Attributes:
        ttft_s: From taking the request up to its first token.
        itl_s: Median gap between two tokens; 0 with fewer than two.
        itl_max_s: The longest gap, usually a handoff.
        tpot_s: (E2E - TTFT) / (n - 1): time per token after the first.
        e2e_s: From taking the request up to its last token.
    """

    ttft_s: float
    itl_s: float
    itl_max_s: float
    tpot_s: float
    e2e_s: float


def latency(started_s: float, stamps_s: Sequence[float], ended_s: float) -> Latency:
    """Compute the times of one request.

    Args:
        started_s: When the request was taken up.
        stamps_s: When each token was known, in order; may be empty.
        ended_s: When the request was finished.

    Examples:
        >>> latency(1.0, [1.5, 1.7, 2.5], 2.5)
        Latency(ttft_s=0.5, itl_s=0.5, itl_max_s=0.8, tpot_s=0.5, e2e_s=1.5)
    """
    e2e_s = ended_s - started_s
    ttft_s = stamps_s[0] - started_s if stamps_s else e2e_s
    gaps = [b - a for a, b in pairwise(stamps_s)]
    return Latency(
        ttft_s=ttft_s,
        itl_s=median(gaps) if gaps else 0.0,
        itl_max_s=max(gaps, default=0.0),
        tpot_s=(e2e_s - ttft_s) / (len(stamps_s) - 1) if gaps else 0.0,
        e2e_s=e2e_s,
    )


def latency_of(result: RelayResult) -> Latency:
    """The times of a finished request."""
    stamps = [stamp for segment in result.segments for stamp in segment.timing.stamps_s]
    return latency(result.started_s, stamps, result.ended_s)
