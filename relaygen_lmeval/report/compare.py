"""Compares contestants on the problems that all of them have; errors and intervals by problem.

A problem is the unit that is drawn: its repeats and seeds resemble each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, bootstrap

from relaygen_lmeval.errors import ReportError
from relaygen_lmeval.report.gather import Contestant, Gathered, Text
from relaygen_lmeval.report.rows import Row, clustered_ratio
from relaygen_lmeval.report.totals import totals

CONFIDENCE, N_RESAMPLES, SEED = 0.95, 2000, 0
DEFAULT_BASELINE = "large"

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its 95 % interval, a paired bootstrap over problems."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Paired:
    """A contestant less the baseline, on the problems that both have scored.

    Attributes:
        difference: In the metric.
        better: Problems on which the contestant is worth more.
        worse: Problems on which it is worth less.
        p: Of the exact two-sided sign test on these, which with one answer a problem is
            McNemar's exact test.
    """

    difference: Interval
    better: int
    worse: int
    p: float


@dataclass(frozen=True, slots=True)
class Line:
    """One contestant on one task.

    Attributes:
        name: Of the contestant.
        n_texts: On the common problems.
        n_runs: Runs that are pooled.
        accuracy: With its standard error, clustered by problem; `None` without verdicts.
        paired: Against the baseline; `None` of itself, and where either has no verdicts.
        speedup: Mean E2E of the baseline over this one's.
        totals: See `totals.totals`; empty without a journal. `tokens_per_s` and `wall_s` are of
            the whole runs, whatever the others have in common with them.
    """

    name: str
    n_texts: int
    n_runs: int
    accuracy: Row | None
    paired: Paired | None
    speedup: Interval | None
    totals: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """All contestants on one task.

    Attributes:
        task: Of the harness.
        metric: Its name.
        baseline: Name of the contestant that the others are compared with; `None` where it has
            not run the task.
        n_problems: That all of them have.
        lines: In the contestants' order.
        note: Where they have different problems: which are compared.
    """

    task: str
    metric: str
    baseline: str | None
    n_problems: int
    lines: tuple[Line, ...]
    note: str = ""


def compare(gathered: Gathered, baseline: str | None = None) -> list[Comparison]:
    """Compare all contestants of each task.

    Args:
        gathered: Their texts.
        baseline: Name of a contestant; default: `large`, else the first.

    Raises:
        ReportError: There is no contestant of this name.
    """
    names = [one.name for one in gathered.contestants]
    if baseline is None:
        baseline = DEFAULT_BASELINE if DEFAULT_BASELINE in names else names[0]
    if baseline not in names:
        raise ReportError(f"no run is called '{baseline}'; --baseline can be {', '.join(names)}")
    return [_of_task(task, gathered, baseline) for task in gathered.tasks]


def common_problems(task: str, contestants: Sequence[Contestant]) -> list[str]:
    """The problems that all of them have, in the first one's order."""
    has = [dict.fromkeys(text.problem for text in one.of(task)) for one in contestants]
    return [problem for problem in has[0] if all(problem in of for of in has)] if has else []


def bootstrap_ratio(*sums: Floats, statistic: Any) -> tuple[float, float]:
    """The interval of a statistic of sums over problems, problems drawn whole.

    Args:
        sums: Each of shape [problems].
        statistic: Of the sums over the last axis, given each by its place.
    """
    interval = bootstrap(
        sums,
        lambda *drawn, axis: statistic(*(values.sum(axis=axis) for values in drawn)),
        paired=True,
        vectorized=True,
        n_resamples=N_RESAMPLES,
        batch=200,  # bounds its memory
        confidence_level=CONFIDENCE,
        method="percentile",  # BCa is not defined where all values agree
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return float(interval.low), float(interval.high)


def _of_task(task: str, gathered: Gathered, baseline: str) -> Comparison:
    here = [one for one in gathered.contestants if one.of(task)]
    problems = common_problems(task, here)
    base = next((one for one in here if one.name == baseline), None)
    lines = tuple(_line(one, base, task, problems) for one in here)
    metric = gathered.metrics[task]
    name = base.name if base else None
    return Comparison(task, metric, name, len(problems), lines, _note(task, here, problems))


def _note(task: str, here: Sequence[Contestant], problems: Sequence[str]) -> str:
    counts = {one.name: len({text.problem for text in one.of(task)}) for one in here}
    if all(n == len(problems) for n in counts.values()):
        return ""
    said = ", ".join(f"{name} {n}" for name, n in counts.items())
    if not problems:
        return f"no problem is common to all, so nothing is compared; problems: {said}"
    return f"compared on the {len(problems)} problems that all have; problems: {said}"


def _line(one: Contestant, base: Contestant | None, task: str, problems: Sequence[str]) -> Line:
    every = one.of(task)
    common = set(problems)
    texts = [text for text in every if text.problem in common]
    mine, theirs = _by_problem(texts), _by_problem(base.of(task)) if base else {}
    return Line(
        one.name,
        len(texts),
        len({text.run for text in every}),
        _accuracy(texts),
        None if base is None or base is one else _paired(mine, theirs, problems),
        _speedup(mine, theirs, problems) if base else None,
        _totals(texts, every),
    )


def _by_problem(texts: Sequence[Text]) -> dict[str, list[Text]]:
    grouped: dict[str, list[Text]] = defaultdict(list)
    for text in texts:
        grouped[text.problem].append(text)
    return grouped


def _accuracy(texts: Sequence[Text]) -> Row | None:
    worth = [(text.correct, text.problem) for text in texts if text.correct is not None]
    if not worth:
        return None
    return clustered_ratio([w for w, _ in worth], np.ones(len(worth)), [p for _, p in worth])


def _paired(
    mine: Mapping[str, Sequence[Text]],
    theirs: Mapping[str, Sequence[Text]],
    problems: Sequence[str],
) -> Paired | None:
    """Each problem counts once, as its mean over repeats and seeds."""
    means = [(_worth(mine[p]), _worth(theirs[p])) for p in problems]
    differences = np.array([a - b for a, b in means if a is not None and b is not None])
    if not len(differences):
        return None
    better, worse = int((differences > 0).sum()), int((differences < 0).sum())
    p = float(binomtest(better, better + worse).pvalue) if better + worse else 1.0
    return Paired(_mean(differences), better, worse, p)


def _mean(values: Floats) -> Interval:
    value = float(values.mean())
    if len(values) < 2:
        return Interval(value, value, value)
    low, high = bootstrap_ratio(values, np.ones(len(values)), statistic=np.divide)
    return Interval(value, low, high)


def _speedup(
    mine: Mapping[str, Sequence[Text]],
    theirs: Mapping[str, Sequence[Text]],
    problems: Sequence[str],
) -> Interval | None:
    pairs = [(_e2e_s(mine[p]), _e2e_s(theirs[p])) for p in problems]
    timed = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not timed:
        return None
    own_s, base_s = (np.array(column, dtype=np.float64) for column in zip(*timed, strict=True))
    if not own_s.sum():
        return None
    value = float(base_s.sum() / own_s.sum())
    if len(timed) < 2 or mine is theirs:
        return Interval(value, value, value)
    return Interval(value, *bootstrap_ratio(base_s, own_s, statistic=np.divide))


def _worth(texts: Sequence[Text]) -> float | None:
    known = [text.correct for text in texts if text.correct is not None]
    return sum(known) / len(known) if known else None


def _e2e_s(texts: Sequence[Text]) -> float | None:
    known = [text.record["e2e_s"] for text in texts if text.record]
    return sum(known) / len(known) if known else None


def _totals(texts: Sequence[Text], every: Sequence[Text]) -> dict[str, float]:
    records = [text.record for text in texts if text.record]
    if not records:
        return {}
    paced = totals(_with_starts(every))
    return {**totals(records), **{name: paced[name] for name in ("tokens_per_s", "wall_s")}}


def _with_starts(texts: Sequence[Text]) -> list[dict[str, Any]]:
    """The records with every start of every run as a start of its own, for the clock of each."""
    numbers: dict[tuple[int, int], int] = {}
    return [
        {**t.record, "run": numbers.setdefault((t.run, t.record.get("run", 1)), len(numbers))}
        for t in texts
        if t.record
    ]
