"""Which candidates become cues: three rules, each decision with its reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

from scipy.stats import t as student

from relaygen_lmeval.calibration.statistics import (
    CueStatistics,
    Measured,
    ScoredTrace,
    measure,
)
from relaygen_lmeval.core.cues import CueTable

Rule = Literal["ci", "paper", "mean"]
RULES: tuple[Rule, ...] = ("ci", "paper", "mean")


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a candidate becomes a cue, and why."""

    selected: bool
    reason: str


def select(
    measured: Measured,
    rule: Rule = "ci",
    *,
    alpha: float = 0.05,
    min_occurrences: int = 10,
    n_tests: int | None = None,
) -> dict[str, Decision]:
    """Decide on every candidate.

    Args:
        measured: The statistics.
        rule: `paper`: the mean is above the global mean by at least one standard error (arXiv
            2602.06454, main text). `mean`: it is above (its appendix B). `ci`: it is above at
            level `alpha`, in a one-sided t test with errors clustered by trace, corrected by
            Bonferroni for all candidates that occur often enough to be tested. The error is at
            least what the spread of all candidates' sentences gives: most margins are 1, so a
            few lucky sentences agree with each other far too well.
        alpha: How likely `ci` may select any cue that is no better than the average token.
        min_occurrences: Fewer are too few for `ci`, which also wants two traces.
        n_tests: What Bonferroni corrects for; default: the candidates that are tested here.

    Returns:
        In the order of the candidates.
    """
    if n_tests is None:
        n_tests = count_tests(measured, min_occurrences)

    def by_ci(cue: CueStatistics) -> Decision:
        return _by_ci(cue, measured, alpha, n_tests, min_occurrences)

    decide: Mapping[Rule, Callable[[CueStatistics], Decision]] = {
        "ci": by_ci,
        "paper": lambda cue: _by_paper(cue, measured.global_mean),
        "mean": lambda cue: _by_mean(cue, measured.global_mean),
    }
    return {name: _decide(cue, decide[rule]) for name, cue in measured.cues.items()}


def choose(
    traces: Sequence[ScoredTrace],
    candidates: CueTable,
    rule: Rule = "ci",
    *,
    alpha: float = 0.05,
    min_occurrences: int = 10,
    seed: int = 0,
    max_small_tokens: int = 128,
) -> tuple[Measured, dict[str, Decision]]:
    """Measure the candidates in traces and decide on each, until the cues hold together.

    With "now" selected and "now," not, the run time follows "now" where "now," is written, which
    no statistic of "now" has counted. So the selected are measured once more, as a table of their
    own, and what no longer passes is dropped, until all pass.

    Args:
        traces: At least one.
        candidates: The candidates and how they match.
        rule: As in `select`.
        alpha: As in `select`.
        min_occurrences: As in `select`.
        seed: As in `measure`.
        max_small_tokens: As in `measure`.
    """
    measured = measure(traces, candidates, seed=seed, max_small_tokens=max_small_tokens)
    n_tests = count_tests(measured, min_occurrences)
    decisions = select(measured, rule, alpha=alpha, min_occurrences=min_occurrences)
    while kept := selected(decisions):
        together = measure(traces, CueTable(kept, candidates.match), seed=seed)
        again = select(
            together, rule, alpha=alpha, min_occurrences=min_occurrences, n_tests=n_tests
        )
        dropped = [cue for cue in kept if not again[cue].selected]
        if not dropped:
            break
        for cue in dropped:
            n = together.cues[cue].occurrences
            decisions[cue] = Decision(
                False,
                f"would also fire where longer candidates fail, {n} times: {again[cue].reason}",
            )
    return measured, decisions


def selected(decisions: Mapping[str, Decision]) -> tuple[str, ...]:
    """The candidates that became cues."""
    return tuple(cue for cue, decision in decisions.items() if decision.selected)


def count_tests(measured: Measured, min_occurrences: int) -> int:
    """How many candidates occur often enough for `ci` to test them."""
    return sum(_is_tested(cue, min_occurrences) for cue in measured.cues.values())


def lower_bound(cue: CueStatistics, sentence_sd: float, alpha: float, n_tests: int) -> float:
    """The one-sided lower bound of a cue's margin less the global mean, for `n_tests` tests."""
    assert cue.difference is not None
    assert cue.difference_error is not None
    # Own errors alone select useless cues five times too often where margins are skewed, as
    # they are: tests/calibration/test_selection.py.
    error = max(cue.difference_error, sentence_sd / sqrt(cue.occurrences))
    quantile = float(student.ppf(1 - alpha / max(1, n_tests), cue.traces - 1))
    return cue.difference - quantile * error


def _decide(cue: CueStatistics, decide: Callable[[CueStatistics], Decision]) -> Decision:
    return decide(cue) if cue.occurrences else Decision(False, "does not occur in the traces")


def _is_tested(cue: CueStatistics, min_occurrences: int) -> bool:
    return cue.occurrences >= max(1, min_occurrences) and cue.traces >= 2


def _by_ci(
    cue: CueStatistics, measured: Measured, alpha: float, n_tests: int, min_occurrences: int
) -> Decision:
    if not _is_tested(cue, min_occurrences):
        found = f"{_count(cue.occurrences, 'occurrence')} in {_count(cue.traces, 'trace')}"
        return Decision(False, f"too few to tell: {found}; {min_occurrences} in 2 are wanted")
    overall = measured.global_mean
    low = overall + lower_bound(cue, measured.sentence_sd, alpha, n_tests)
    level = f"lower bound {low:.3f} at level {alpha:g} for {_count(n_tests, 'candidate')}"
    if low > overall:
        return Decision(True, f"{level} is above the global mean {overall:.3f}")
    return Decision(False, f"{level} is not above the global mean {overall:.3f}")


def _by_paper(cue: CueStatistics, overall: float) -> Decision:
    assert cue.mean_margin is not None
    if cue.standard_error is None:
        return Decision(False, "occurs in one trace only: no standard error can be given")
    least = cue.mean_margin - cue.standard_error
    text = f"mean less one standard error, {least:.3f},"
    if least >= overall:
        return Decision(True, f"{text} reaches the global mean {overall:.3f}")
    return Decision(False, f"{text} is below the global mean {overall:.3f}")


def _by_mean(cue: CueStatistics, overall: float) -> Decision:
    assert cue.mean_margin is not None
    is_above = cue.mean_margin > overall
    text = "is above" if is_above else "is not above"
    return Decision(is_above, f"mean {cue.mean_margin:.3f} {text} the global mean {overall:.3f}")


def _count(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "s")
