"""Every statistic against a computation that shares no code with it."""

from __future__ import annotations

import math
import random
from statistics import fmean, stdev

import numpy as np
import pytest
from scipy import stats

from relaygen_lmeval.calibration.statistics import (
    Measured,
    ScoredTrace,
    clustered_error,
    measure,
)
from relaygen_lmeval.core.cues import CueTable
from tests.calibration.synthetic import sentence, trace

TABLE = CueTable(("So,", "Now,", "Hmm,"))


@pytest.fixture(scope="module")
def traces() -> list[ScoredTrace]:
    rng = random.Random(1)
    return [
        trace(
            *(
                sentence(cue, [rng.random() for _ in range(rng.randrange(1, 7))])
                for cue in rng.choices(["So,", "Now,", None], k=rng.randrange(1, 9))
            )
        )
        for _ in range(12)
    ]


@pytest.fixture(scope="module")
def measured(traces: list[ScoredTrace]) -> Measured:
    return measure(traces, TABLE, seed=3)


def by_hand(traces: list[ScoredTrace], cue: str) -> list[list[float]]:
    """Mean margins of the sentences that a cue opens, trace by trace."""
    found = []
    for one in traces:
        starts = [i for i, text in enumerate(one.texts) if text.strip() == cue]
        ends = [next(j for j in range(i, len(one.texts)) if one.texts[j] == ".") for i in starts]
        found.append([fmean(one.margins[i + 1 : j + 1]) for i, j in zip(starts, ends, strict=True)])
    return found


def jackknife(traces: list[ScoredTrace], estimate: object) -> float:
    """Leave one trace out at a time."""
    n = len(traces)
    left = [estimate(traces[:i] + traces[i + 1 :]) for i in range(n)]  # type: ignore[operator]
    return math.sqrt((n - 1) / n * sum((x - fmean(left)) ** 2 for x in left))


def test_the_global_mean_is_over_all_tokens(traces, measured):
    every = [margin for one in traces for margin in one.margins]

    assert measured.global_mean == pytest.approx(fmean(every), abs=1e-12)
    assert (measured.n_tokens, measured.n_traces) == (len(every), 12)


@pytest.mark.parametrize("cue", ["So,", "Now,"])
def test_means_counts_and_differences(traces, measured, cue):
    found = by_hand(traces, cue)
    flat = [margin for one in found for margin in one]
    statistics = measured.cues[cue]

    assert statistics.occurrences == len(flat)
    assert statistics.traces == sum(bool(one) for one in found)
    assert statistics.mean_margin == pytest.approx(fmean(flat), abs=1e-12)
    assert statistics.difference == pytest.approx(fmean(flat) - measured.global_mean, abs=1e-12)


@pytest.mark.parametrize("cue", ["So,", "Now,"])
def test_the_share_is_that_of_the_tokens_after_the_cue(traces, measured, cue):
    n_after = 0
    for one in traces:
        inside = False
        for text in one.texts:
            n_after += inside
            inside = (inside or text.strip() == cue) and text != "."

    assert measured.cues[cue].share == pytest.approx(n_after / measured.n_tokens)


@pytest.mark.parametrize("cue", ["So,", "Now,"])
def test_the_clustered_error_is_that_of_a_regression_on_a_constant(traces, measured, cue):
    """The sandwich estimator, written out as textbooks have it: (X'X)^-1 X'uu'X (X'X)^-1."""
    found = [one for one in by_hand(traces, cue) if one]
    y = np.array([margin for one in found for margin in one])
    x = np.ones((len(y), 1))
    u = y - np.linalg.lstsq(x, y, rcond=None)[0][0]
    ends = np.cumsum([len(one) for one in found])[:-1]
    meat = sum(x[part].T @ np.outer(u[part], u[part]) @ x[part] for part in split(len(y), ends))
    bread = np.linalg.inv(x.T @ x)
    g, n = len(found), len(y)
    variance = (g / (g - 1)) * ((n - 1) / (n - 1)) * (bread @ meat @ bread)[0, 0]

    assert measured.cues[cue].standard_error == pytest.approx(math.sqrt(variance), rel=1e-9)


def split(n: int, ends: np.ndarray) -> list[np.ndarray]:
    return np.split(np.arange(n), ends)


def test_clusters_of_one_give_the_plain_standard_error():
    values = np.array([0.1, 0.5, 0.4, 0.9])

    error = clustered_error(values, np.ones(4))

    assert error == pytest.approx(stdev(values) / 2)
    assert error == pytest.approx(float(stats.sem(values)))


def test_a_trace_written_twice_is_no_new_evidence_within_it():
    values = np.array([0.1, 0.5, 0.4, 0.9])

    assert clustered_error(3 * values, np.full(4, 3.0)) == pytest.approx(float(stats.sem(values)))


@pytest.mark.parametrize("cue", ["So,", "Now,"])
def test_errors_are_near_those_of_the_jackknife(traces, measured, cue):
    def mean(some: list[ScoredTrace]) -> float:
        return fmean(margin for one in by_hand(some, cue) for margin in one)

    def difference(some: list[ScoredTrace]) -> float:
        return mean(some) - fmean(margin for one in some for margin in one.margins)

    statistics = measured.cues[cue]
    assert statistics.standard_error == pytest.approx(jackknife(traces, mean), rel=0.25)
    assert statistics.difference_error == pytest.approx(jackknife(traces, difference), rel=0.25)


def test_the_interval_is_that_of_traces_drawn_by_hand(traces, measured):
    rng = random.Random(0)
    found = [one for one in by_hand(traces, "So,") if one]
    means = sorted(
        fmean(m for one in rng.choices(found, k=len(found)) for m in one) for _ in range(4000)
    )
    statistics = measured.cues["So,"]

    assert statistics.ci_low == pytest.approx(means[100], abs=0.02)
    assert statistics.ci_high == pytest.approx(means[3900], abs=0.02)


def test_an_interval_follows_from_the_seed_and_from_its_own_cue(traces, measured):
    again = measure(traces, CueTable(("So,", "zzz")), seed=3)

    assert again.cues["So,"] == measured.cues["So,"]
    assert measure(traces, TABLE, seed=4).cues["So,"].ci_low != measured.cues["So,"].ci_low


def test_a_cue_that_does_not_occur_has_no_numbers(measured):
    statistics = measured.cues["Hmm,"]

    assert (statistics.occurrences, statistics.share) == (0, 0.0)
    assert statistics.mean_margin is statistics.standard_error is statistics.ci_low is None


def test_one_trace_gives_a_mean_and_no_error():
    statistics = measure([trace(sentence("So,", [0.5, 0.7]))], TABLE).cues["So,"]

    assert statistics.mean_margin == pytest.approx((0.5 + 0.7 + 1.0) / 3)
    assert statistics.standard_error is statistics.difference_error is statistics.ci_low is None


def test_a_trace_of_one_token_counts_in_the_global_mean_alone():
    found = measure([trace(sentence("So,", [0.5])), ScoredTrace(("So,",), (0.2,))], TABLE)

    assert found.cues["So,"].occurrences == 1
    assert found.n_traces == 2


def test_two_occurrences_in_one_sentence_hand_over_its_tokens_once():
    texts = ("So,", " now", " we", " so", " it", " is", ".")
    found = measure([ScoredTrace(texts, (0.5,) * 7)], CueTable(("So,", "so")))
    alone = measure(
        [ScoredTrace(("so", " it", " so", " it", " is", "."), (0.5,) * 6)], CueTable(("so",))
    )

    assert found.cues["So,"].share == pytest.approx(6 / 7)
    assert alone.cues["so"].occurrences == 2
    assert alone.cues["so"].share == pytest.approx(4 / 6)


def test_a_segment_is_no_longer_than_the_run_time_lets_it_be():
    one = trace(sentence("So,", [0.5] * 20))

    assert measure([one], TABLE, max_small_tokens=5).cues["So,"].share == pytest.approx(5 / 22)
