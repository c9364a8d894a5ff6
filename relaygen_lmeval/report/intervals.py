"""Intervals of ratios of sums, by a bootstrap that draws whole what hangs together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import bootstrap

CONFIDENCE, N_RESAMPLES, SEED = 0.95, 2000, 0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its 95 % interval, a paired bootstrap over units."""

    value: float
    low: float
    high: float


def mean(values: Floats) -> Interval:
    """The mean over problems; of shape [problems], at least one."""
    return ratio(values, np.ones(len(values)))


def ratio(above: Floats, below: Floats, rng: np.random.Generator | None = None) -> Interval:
    """The ratio of two sums.

    Args:
        above: Of each problem or trace, at least one.
        below: The same.
        rng: Draws them; `None`: one of a fixed seed.

    Examples:
        >>> ratio(np.array([2.0, 4.0]), np.array([1.0, 2.0]))
        Interval(value=2.0, low=2.0, high=2.0)
    """
    value = float(above.sum() / below.sum())
    if len(above) < 2:
        return Interval(value, value, value)
    interval = bootstrap(
        (above, below),
        lambda a, b, axis: a.sum(axis=axis) / b.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=N_RESAMPLES,
        batch=200,  # bounds its memory
        confidence_level=CONFIDENCE,
        method="percentile",  # BCa is not defined where all values agree
        rng=rng or np.random.default_rng(SEED),
    ).confidence_interval
    return Interval(value, float(interval.low), float(interval.high))
