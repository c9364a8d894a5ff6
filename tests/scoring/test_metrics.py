"""Every metric against a computation of its own kind: enumeration, simulation, the harness."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lm_eval.api.metrics import mean, stderr_for_metric

from relaygen_lmeval.scoring.metrics import Graded, majority, metric_names, pass_at_k, score


def right(answer: str = "7") -> Graded:
    return Graded(answer, right=True)


def wrong(answer: str) -> Graded:
    return Graded(answer, right=False)


NOTHING = Graded(None, right=False)
CUT = Graded(None, right=False, truncated=True)


def same(a: str, b: str) -> bool:
    """Equal numbers: "8" and "8.0" are."""
    return float(a) == float(b)


@pytest.mark.parametrize(
    ("n", "n_right", "k"), [(4, 1, 2), (8, 3, 4), (6, 0, 3), (5, 5, 2), (7, 2, 7)]
)
def test_pass_at_k_is_the_share_of_draws_with_a_right_one(n, n_right, k):
    answers = [True] * n_right + [False] * (n - n_right)
    draws = list(itertools.combinations(answers, k))

    assert pass_at_k(n, n_right, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_pass_at_k_is_unbiased():
    """10,000 problems of chance 0.3: the estimate from 8 answers is 1 - 0.7^4 (5 errors wide)."""
    rng = np.random.default_rng(0)
    estimates = [pass_at_k(8, int(c), 4) for c in rng.binomial(8, 0.3, size=10_000)]

    assert np.mean(estimates) == pytest.approx(1 - 0.7**4, abs=5 * np.std(estimates) / 100)


@pytest.mark.parametrize(("n", "k"), [(4, 5), (4, 0)])
def test_pass_at_k_refuses_more_draws_than_answers(n, k):
    with pytest.raises(ValueError, match="needs at least"):
        pass_at_k(n, 1, k)


@pytest.mark.parametrize(
    ("graded", "wanted"),
    [
        ([right(), right("14/2"), wrong("8"), wrong("8.0")], 0.5),  # a tie of two and two
        ([right(), wrong("8"), wrong("8.0"), wrong("9")], 0.0),
        ([right(), right("14/2"), wrong("8"), wrong("9")], 1.0),
        ([right(), wrong("8"), wrong("9"), wrong("10")], 0.25),
        ([right(), NOTHING, NOTHING, CUT], 1.0),  # who says nothing does not vote
        ([NOTHING, NOTHING, CUT, CUT], 0.0),
    ],
)
def test_the_majority_counts_equal_answers_together(graded, wanted):
    assert majority(graded, same) == wanted


@given(
    st.lists(st.sampled_from([right(), wrong("8"), wrong("9"), NOTHING]), min_size=1, max_size=6)
)
def test_the_majority_is_what_a_draw_among_the_most_frequent_gives(graded):
    """Against counting and drawing; 0.07 is six errors of 2,000 draws."""
    rng = random.Random(0)
    given_answers = [g.answer for g in graded if g.answer is not None]
    most = max(map(given_answers.count, given_answers), default=0)
    tied = sorted({a for a in given_answers if given_answers.count(a) == most})
    drawn = [rng.choice(tied) == "7" for _ in range(2000)] if tied else [False]

    assert majority(graded, same) == pytest.approx(np.mean(drawn), abs=0.07)


@given(st.lists(st.sampled_from([right(), wrong("8"), NOTHING, CUT]), min_size=1, max_size=9))
def test_all_answers_are_right_wrong_cut_or_none(graded):
    scores = score(graded, same)
    n = len(graded)

    assert list(scores) == list(metric_names(n))
    assert scores[f"avg@{n}"] == np.mean([g.right for g in graded])
    n_wrong = sum(g.answer is not None and not g.right for g in graded)
    rest = scores["truncated"] + scores["no_answer"] + n_wrong / n
    assert scores[f"avg@{n}"] + rest == pytest.approx(1)
    if n > 1:
        assert scores[f"pass@{n}"] == float(any(g.right for g in graded))


def test_the_harnesss_error_of_the_mean_is_clustered_by_problem():
    """Against a regression's cluster-robust error, from the verdicts and not from the means."""
    rng = np.random.default_rng(3)
    chances = rng.uniform(size=60)
    verdicts = rng.uniform(size=(60, 4)) < chances[:, None]

    problems = [score([Graded("7", bool(v)) for v in row], same)["avg@4"] for row in verdicts]
    error = stderr_for_metric(mean, 1000)(problems)

    residuals = verdicts - verdicts.mean()
    by_cluster = residuals.sum(axis=1)
    robust = np.sqrt(60 / 59 * (by_cluster**2).sum()) / verdicts.size
    assert error == pytest.approx(robust)
    naive = verdicts.std(ddof=1) / np.sqrt(verdicts.size)
    assert error > 1.3 * naive  # answers to one problem resemble each other
