"""What is expected of cues, worked out by hand."""

from __future__ import annotations

import pytest

from relaygen_lmeval.calibration.forecast import forecast
from relaygen_lmeval.calibration.traces import Trace
from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.types import Role
from relaygen_lmeval.journal import Label

STEP_S = {Role.LARGE: 0.010, Role.SMALL: 0.002}


def written(*texts: str, n_answer: int = 2) -> Trace:
    ids = tuple(range(len(texts)))
    return Trace(Label(), dict.fromkeys(Role, (1,)), ids, texts, n_answer)


def test_tokens_and_seams_cost_one_step_each():
    trace = written("So", ",", " it", " is", " 21", ".", " Ok", n_answer=3)

    found = forecast([trace], CueTable(("So,",)), STEP_S, min_large_tokens=0)

    # large: So , _Ok; small: it is 21 . and the answer of 3
    assert found.handed_over == pytest.approx(4 / 7)
    assert found.share == pytest.approx(3 / 10)
    assert found.handoffs_per_1000 == pytest.approx(300)
    # large: 3 tokens and 2 segments; small: 7 tokens and 2 segments
    assert found.speedup == pytest.approx(10 * 0.010 / (5 * 0.010 + 9 * 0.002))


def test_the_large_model_may_write_the_answer():
    trace = written("So", ",", " it", ".", n_answer=6)

    found = forecast([trace], CueTable(("So,",)), STEP_S, answer_by=Role.LARGE, min_large_tokens=0)

    assert found.share == pytest.approx(8 / 10)


def test_without_a_cue_only_the_answer_is_handed_over():
    found = forecast([written("It", " is", ".")], CueTable(("So,",)), STEP_S)

    assert found.handed_over == 0
    assert found.share == pytest.approx(3 / 5)
