"""The comparison of ways to find cues, and how fast margins are."""

from __future__ import annotations

import pytest

from relaygen_lmeval.calibration.ablations import (
    LARGE,
    SELECTED,
    SMALL,
    Plan,
    _difference,
    ablations_markdown,
    run_ablations,
)
from relaygen_lmeval.calibration.speed import plain_step_s, scoring_speed
from relaygen_lmeval.core.types import Role
from relaygen_lmeval.models.pair import Pair
from relaygen_lmeval.relay import parse_options
from relaygen_lmeval.requests import RequestMaker


def test_differences_are_paired():
    found = _difference([1, 1, 0, 1], [1, 0, 0, 1])

    assert found["mean"] == pytest.approx(0.25)
    assert found["se"] == pytest.approx(0.25)  # of 0, 1, 0, 0
    assert found["high"] == pytest.approx(0.25 + 1.959964 * 0.25)
    assert _difference([1, 0], [1, 0])["low"] == 0


def row(accuracy: float, low: float, high: float, n_cues: int = 1) -> dict:
    difference = {"mean": (low + high) / 2, "se": 0.1, "low": low, "high": high}
    return {
        "cues": ["So,"] * n_cues,
        "n_traces": 10,
        "accuracy": accuracy,
        "accuracy_se": 0.01,
        "to_large": difference,
        "to_selected": difference,
        "share": 0.5,
        "e2e_s": 0.2,
        "speedup": 1.5,
    }


def test_what_is_within_noise_is_said():
    settings = {
        "large": "a",
        "small": "b",
        "task": "t",
        "n": 5,
        "calibration_task": "c",
        "traces": 10,
        "batch_size": 8,
        "timed": 5,
    }
    rows = {
        LARGE: row(0.9, -0.1, 0.2),
        SELECTED: row(0.9, 0, 0),
        "worse": row(0.5, -0.5, -0.3),
        "none found": row(0.9, 0, 0, n_cues=0),
    }

    text = ablations_markdown({"settings": settings, "rows": rows})

    assert "Within noise of the selected cues' accuracy: large alone; none found." in text
    assert "Beyond noise: worse." in text
    assert "No candidate passed, so the large model wrote all: none found." in text
    assert "| worse | 1 | 50.0 ± 1.0 | -40.0 (-50.0 to -30.0) |" in text


@pytest.mark.slow
def test_every_way_is_compared_on_the_same_problems(tmp_path):
    plan = Plan(limit=4, timed=1, documents=12, repeats=1, log_dir=tmp_path)

    report = run_ablations(plan)

    rows = report["rows"]
    assert report["settings"]["n"] == 4
    assert report["settings"]["traces"] == 12
    assert rows[LARGE]["share"] == 1.0
    assert rows[SMALL]["share"] == 0.0
    assert rows[LARGE]["speedup"] == 1.0
    assert "rule ci, 10 traces" in rows
    assert all(0 <= r["accuracy"] <= 1 for r in rows.values())
    assert all(name in ablations_markdown(report) for name in rows)


@pytest.mark.slow
def test_scoring_is_ten_times_as_fast_as_writing(pair: Pair, questions):
    config = parse_options({})
    template = RequestMaker(config, pair, [Role.LARGE]).template
    prompts = [template(question) for question in questions[:16]]

    found = scoring_speed(config, pair, prompts, max_gen_toks=120, repeats=1)

    assert found["ratio_small"] > 10
    assert found["n_tokens"] > 16 * 20


def test_a_step_takes_time(pair: Pair):
    assert 0 < plain_step_s(pair.small.model) < 1  # type: ignore[union-attr]
