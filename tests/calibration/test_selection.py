"""Selection: easy and hard cues are told apart, and useless ones rarely pass."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import pytest
from scipy.stats import binom

from relaygen_lmeval.calibration.selection import RULES, choose, select, selected
from relaygen_lmeval.calibration.statistics import (
    CueStatistics,
    Measured,
    ScoredTrace,
    measure,
)
from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.report import intervals
from tests.calibration.synthetic import sentence, trace

USELESS = tuple(f"U{letter}," for letter in "abcdefghijkl")
N_SEEDS = 40


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "N_RESAMPLES", 20)  # no rule looks at the interval


def skewed(rng: random.Random, level: float = 0.0) -> float:
    """Like real margins: most are 1, some are anything."""
    return max(0.0, 1 - 0.9 * rng.random() * (rng.random() < 0.12 - level))


def synthetic(seed: int, cues: dict[str, float], n_traces: int = 20) -> list[ScoredTrace]:
    """Traces whose cues are as much easier than the rest as `cues` says."""
    rng = random.Random(seed)
    traces = []
    for _ in range(n_traces):
        sentences = []
        for cue in rng.choices(list(cues), k=12):
            n = rng.randrange(2, 9)
            margins = [skewed(rng, cues[cue]) for _ in range(n)]
            sentences.append(sentence(cue, margins, before=skewed(rng)))
        one = trace(*sentences)
        margins = [
            skewed(rng) if text == "." else margin
            for text, margin in zip(one.texts, one.margins, strict=True)
        ]
        traces.append(replace(one, margins=tuple(margins)))
    return traces


@pytest.mark.slow
def test_useless_cues_are_selected_no_more_often_than_stated():
    """A family of 12 useless cues: any of them passes in at most 5 of 100 calibrations."""
    n_wrong = 0
    for seed in range(N_SEEDS):
        traces = synthetic(seed, dict.fromkeys(USELESS, 0.0))
        n_wrong += bool(selected(select(measure(traces, CueTable(USELESS)), alpha=0.05)))

    assert n_wrong <= binom.ppf(0.95, N_SEEDS, 0.05)


def test_own_errors_alone_would_select_too_often():
    """Why the spread of all sentences bounds the error from below."""
    n_wrong = 0
    for seed in range(N_SEEDS):
        traces = synthetic(seed, dict.fromkeys(USELESS, 0.0))
        measured = replace(measure(traces, CueTable(USELESS)), sentence_sd=0.0)
        n_wrong += bool(selected(select(measured, alpha=0.05)))

    assert n_wrong > binom.ppf(0.99, N_SEEDS, 0.05)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rule", RULES)
def test_a_planted_easy_cue_and_a_planted_hard_one_are_told_apart(seed, rule):
    levels = {"Easy,": 0.12, "Hard,": -0.6, "Ua,": -0.1, "Ub,": -0.1}
    traces = synthetic(seed, levels, n_traces=60)

    _, decisions = choose(traces, CueTable(tuple(levels)), rule)

    assert decisions["Easy,"].selected
    assert not decisions["Hard,"].selected


STATISTICS = CueStatistics(
    occurrences=50,
    traces=20,
    mean_margin=0.9,
    difference=0.1,
    standard_error=0.02,
    difference_error=0.02,
    ci_low=0.86,
    ci_high=0.94,
    share=0.1,
)


def decide(rule: Any, **changes: Any):
    measured = Measured({"So,": replace(STATISTICS, **changes)}, 0.8, 1000, 30)
    return select(measured, rule)["So,"]


@pytest.mark.parametrize(
    ("rule", "changes", "is_selected", "reason"),
    [
        # t(19) at 95 % is 1.729: 0.1 - 1.729 * 0.02 = 0.0654
        ("ci", {}, True, "lower bound 0.865 at level 0.05 for 1 candidate is above the global"),
        ("ci", {"difference_error": 0.058}, False, "lower bound 0.800 .* is not above"),
        ("ci", {"difference_error": 0.0575}, True, "is above"),
        ("ci", {"occurrences": 9}, False, "too few to tell: 9 occurrences in 20 traces"),
        ("ci", {"traces": 1, "difference_error": None}, False, "50 occurrences in 1 trace;"),
        ("paper", {}, True, "mean less one standard error, 0.880, reaches"),
        ("paper", {"standard_error": 0.11}, False, "0.790, is below the global mean 0.800"),
        ("paper", {"occurrences": 1, "traces": 1, "standard_error": None}, False, "in one trace"),
        ("mean", {"standard_error": 0.2}, True, "mean 0.900 is above the global mean 0.800"),
        ("mean", {"mean_margin": 0.8}, False, "is not above"),
        ("mean", {"occurrences": 0}, False, "does not occur"),
    ],
)
def test_every_decision_has_its_reason(rule, changes, is_selected, reason):
    decision = decide(rule, **changes)

    assert decision.selected is is_selected
    assert re.search(reason, decision.reason)


def test_many_candidates_make_the_bound_stricter():
    one = replace(STATISTICS, difference_error=0.045)  # 0.1 / 0.045 = 2.2 errors

    def with_others(n: int) -> bool:
        others = {f"c{i},": replace(STATISTICS, difference=-0.1) for i in range(n)}
        return select(Measured({"So,": one, **others}, 0.8, 1000, 30))["So,"].selected

    assert with_others(0)
    assert not with_others(20)


def test_candidates_that_are_too_rare_to_be_tested_cost_nothing():
    one = replace(STATISTICS, difference_error=0.045)
    others = {f"c{i},": replace(STATISTICS, occurrences=3) for i in range(20)}

    assert select(Measured({"So,": one, **others}, 0.8, 1000, 30))["So,"].selected


def test_a_cue_that_would_fire_where_its_longer_form_fails_is_dropped():
    """With "So" alone in the table the run time follows it in "So," as well."""
    rng = random.Random(0)

    def some(cue: str, low: float, high: float) -> tuple[list[str], list[float]]:
        return sentence(cue, [rng.uniform(low, high) for _ in range(5)])

    traces = [
        trace(some("So", 0.9, 1), some("So,", 0, 0.2), some("So,", 0, 0.2), some("x", 0.4, 0.6))
        for _ in range(20)
    ]

    measured, decisions = choose(traces, CueTable(("So", "So,")), "mean")

    assert (measured.cues["So"].mean_margin or 0) > measured.global_mean
    assert not decisions["So"].selected
    assert "would also fire where longer candidates fail, 60 times" in decisions["So"].reason
