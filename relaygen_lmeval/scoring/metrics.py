"""What the answers to one problem are worth, from verdicts; plain arithmetic, no verifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb

Same = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Graded:
    """One answer with its verdict.

    Attributes:
        answer: What was answered, or `None`.
        right: The verdict; never true of an unfinished reasoning or of no answer.
        truncated: Whether the reasoning was unfinished.
    """

    answer: str | None
    right: bool
    truncated: bool = False


def metric_names(n_repeats: int) -> dict[str, bool]:
    """The metrics of a task and whether more is better.

    Examples:
        >>> list(metric_names(4))
        ['avg@4', 'maj@4', 'pass@2', 'pass@4', 'truncated', 'no_answer']
        >>> list(metric_names(1))
        ['avg@1', 'truncated', 'no_answer']
    """
    up = [f"avg@{n_repeats}"]
    if n_repeats > 1:
        up += [f"maj@{n_repeats}", *(f"pass@{k}" for k in _passes(n_repeats))]
    return {**dict.fromkeys(up, True), "truncated": False, "no_answer": False}


def score(graded: Sequence[Graded], same: Same) -> dict[str, float]:
    """All metrics of one problem, each in [0, 1].

    Args:
        graded: The repeats, at least one.
        same: Whether two answers are equal.

    Returns:
        As `metric_names` has them. `truncated` and `no_answer` exclude each other: with `avg@n`
        and the wrong answers they make 1. The mean over problems is the task's; as a problem
        counts once, the standard error of that mean is clustered by problem.
    """
    n, n_right = len(graded), sum(g.right for g in graded)
    scores = {f"avg@{n}": n_right / n}
    if n > 1:
        scores[f"maj@{n}"] = majority(graded, same)
        scores |= {f"pass@{k}": pass_at_k(n, n_right, k) for k in _passes(n)}
    scores["truncated"] = sum(g.truncated for g in graded) / n
    scores["no_answer"] = sum(g.answer is None and not g.truncated for g in graded) / n
    return scores


def pass_at_k(n: int, n_right: int, k: int) -> float:
    """The chance that at least one of `k` answers is right, drawn from `n` without return.

    Args:
        n: Answers, at least `k`.
        n_right: Of them right.
        k: Answers drawn.

    Raises:
        ValueError: `k` is not between 1 and `n`.

    Examples:
        >>> pass_at_k(4, 1, 2)
        0.5

    Source:
        Chen et al. 2021, arXiv:2107.03374, equation 1: unbiased for `k` fresh answers.
    """
    if not 1 <= k <= n:
        raise ValueError(f"pass@{k} needs at least {k} answers and k of at least 1, got {n}")
    return 1 - comb(n - n_right, k) / comb(n, k)


def majority(graded: Sequence[Graded], same: Same) -> float:
    """What the most frequent answer is worth; of a tie, the chance of drawing a right one.

    Answers that are right are one answer, whatever they look like. Who gave none does not
    vote, and where nobody did the result is 0.
    """
    votes: list[list[Graded]] = []
    for one in graded:
        if one.answer is not None:
            _vote(votes, one, same)
    most = max(map(len, votes), default=0)
    tied = [answers for answers in votes if len(answers) == most]
    return sum(answers[0].right for answers in tied) / len(tied) if tied else 0.0


def _vote(votes: list[list[Graded]], one: Graded, same: Same) -> None:
    for answers in votes:
        if _alike(answers[0], one, same):
            answers.append(one)
            return
    votes.append([one])


def _alike(a: Graded, b: Graded, same: Same) -> bool:
    if a.right or b.right:
        return a.right and b.right
    return a.answer == b.answer or same(str(a.answer), str(b.answer))


def _passes(n: int) -> list[int]:
    """2, 4, 8 ... below `n`, and `n`."""
    powers = [1 << i for i in range(1, n.bit_length()) if 1 << i < n]
    return [*powers, n]
