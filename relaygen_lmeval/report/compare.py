"""Compares contestants on the problems that all of them have; errors and intervals by problem.

A problem is the unit that is drawn: its repeats and seeds resemble each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest

from relaygen_lmeval.errors import ReportError
from relaygen_lmeval.report import intervals
from relaygen_lmeval.report.estimate import Costs, e2e_s, work_of
from relaygen_lmeval.report.gather import Contestant, Gathered, Text
from relaygen_lmeval.report.intervals import Interval
from relaygen_lmeval.report.rows import Row, clustered_ratio
from relaygen_lmeval.report.totals import totals

DEFAULT_BASELINE = "large"
_CLOCK = "mean E2E"
_UNSTEADY = 1.3


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
        speedup: Mean E2E of the baseline over this one's; see `Comparison.timed_by`.
        e2e_runs_s: Mean E2E of each of its runs, by the clock, seconds.
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
    e2e_runs_s: tuple[float, ...] = ()


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
        note: Where they have different problems: which are compared; where the clock is not to be
            trusted: why.
        timed_by: What speedups are of, in words.
    """

    task: str
    metric: str
    baseline: str | None
    n_problems: int
    lines: tuple[Line, ...]
    note: str = ""
    timed_by: str = _CLOCK


def compare(
    gathered: Gathered, baseline: str | None = None, costs: Costs | None = None
) -> list[Comparison]:
    """Compare all contestants of each task.

    Args:
        gathered: Their texts.
        baseline: Name of a contestant; default: `large`, else the first.
        costs: Of forwards; where given, speedups are by the forwards of each request one at a
            time, and not by the clock of a machine that may have been busy.

    Raises:
        ReportError: There is no contestant of this name.
    """
    names = [one.name for one in gathered.contestants]
    if baseline is None:
        baseline = DEFAULT_BASELINE if DEFAULT_BASELINE in names else names[0]
    if baseline not in names:
        raise ReportError(f"no run is called '{baseline}'; --baseline can be {', '.join(names)}")
    return [_of_task(task, gathered, baseline, costs) for task in gathered.tasks]


def common_problems(task: str, contestants: Sequence[Contestant]) -> list[str]:
    """The problems that all of them have, in the first one's order."""
    has = [dict.fromkeys(text.problem for text in one.of(task)) for one in contestants]
    return [problem for problem in has[0] if all(problem in of for of in has)] if has else []


def _of_task(task: str, gathered: Gathered, baseline: str, costs: Costs | None) -> Comparison:
    here = [one for one in gathered.contestants if one.of(task)]
    problems = common_problems(task, here)
    base = next((one for one in here if one.name == baseline), None)
    lines = tuple(_line(one, base, task, problems, costs) for one in here)
    notes = [_note(task, here, problems), "" if costs else _unsteady(lines)]
    return Comparison(
        task,
        gathered.metrics[task],
        base.name if base else None,
        len(problems),
        lines,
        ". ".join(filter(None, notes)),
        _CLOCK if costs is None else f"forwards of {costs.large_ms:g} and {costs.small_ms:g} ms",
    )


def _unsteady(lines: Sequence[Line]) -> str:
    """Seeds change a text's length a little; the rest of a spread is the machine's."""
    spreads = [
        (max(of) / min(of), line.name) for line in lines if min(of := line.e2e_runs_s, default=0)
    ]
    spread, name = max(spreads, default=(1.0, ""))
    if spread < _UNSTEADY:
        return ""
    return (
        f"the mean E2E of {name} differs by a factor of {spread:.1f} between its runs, so the "
        "machine was busy and speedups say little; --large-ms and --small-ms count forwards instead"
    )


def _note(task: str, here: Sequence[Contestant], problems: Sequence[str]) -> str:
    counts = {one.name: len({text.problem for text in one.of(task)}) for one in here}
    if all(n == len(problems) for n in counts.values()):
        return ""
    said = ", ".join(f"{name} {n}" for name, n in counts.items())
    if not problems:
        return f"no problem is common to all, so nothing is compared; problems: {said}"
    return f"compared on the {len(problems)} problems that all have; problems: {said}"


def _line(
    one: Contestant,
    base: Contestant | None,
    task: str,
    problems: Sequence[str],
    costs: Costs | None,
) -> Line:
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
        _speedup(_seconds(one, mine, costs), _seconds(base, theirs, costs), problems)
        if base
        else None,
        _totals(texts, every),
        _e2e_runs_s(texts),
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
    return Paired(intervals.mean(differences), better, worse, p)


def _seconds(
    one: Contestant, by_problem: Mapping[str, Sequence[Text]], costs: Costs | None
) -> dict[str, float]:
    """Mean time of each problem's requests, by the clock or by the cost of their forwards."""
    records = {p: [t.record for t in texts if t.record] for p, texts in by_problem.items()}
    if costs is None:
        return {p: sum(r["e2e_s"] for r in of) / len(of) for p, of in records.items() if of}
    drafts = one.small_drafts
    return {p: e2e_s(work_of(of, small_drafts=drafts), costs) for p, of in records.items() if of}


def _e2e_runs_s(texts: Sequence[Text]) -> tuple[float, ...]:
    by_run: dict[int, list[float]] = defaultdict(list)
    for text in texts:
        if text.record:
            by_run[text.run].append(text.record["e2e_s"])
    return tuple(sum(of) / len(of) for of in by_run.values())


def _speedup(
    mine_s: Mapping[str, float], base_s: Mapping[str, float], problems: Sequence[str]
) -> Interval | None:
    timed = [p for p in problems if p in mine_s and p in base_s]
    own, base = (np.array([of[p] for p in timed]) for of in (mine_s, base_s))
    if not own.sum():
        return None
    return intervals.ratio(base, own)


def _worth(texts: Sequence[Text]) -> float | None:
    known = [text.correct for text in texts if text.correct is not None]
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
