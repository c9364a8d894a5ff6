"""The pictures are drawn for whatever was measured, and a missing extra is named."""

from __future__ import annotations

import sys

import pytest

from relaygen_lmeval.calibration.pictures import draw_cues, draw_trace, pick_trace
from relaygen_lmeval.calibration.selection import select
from relaygen_lmeval.calibration.statistics import measure
from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.margins import TokenRange
from relaygen_lmeval.errors import ConfigError
from tests.calibration.synthetic import sentence, trace

CUES = ("So,", "$x_1$", "したがって、", "<b>,")
TRACES = [trace(*(sentence(cue, [0.3, 0.9 - i / 9]) for cue in CUES)) for i in range(3)]


def test_cues_of_any_script_are_drawn(tmp_path):
    measured = measure(TRACES, CueTable(CUES))

    draw_cues(measured, select(measured, "mean"), "A title", tmp_path / "a.png")

    assert (tmp_path / "a.png").stat().st_size > 10_000


def test_no_interval_is_an_empty_picture(tmp_path):
    measured = measure(TRACES[:1], CueTable(CUES))

    draw_cues(measured, select(measured, "mean"), "One trace", tmp_path / "a.png")

    assert (tmp_path / "a.png").exists()


@pytest.mark.parametrize("n", [1, 39, 41, 500])
def test_a_trace_of_any_length_is_drawn(tmp_path, n):
    texts = [" $\n", "そ", "<a>", "", " "] * n
    handed = [TokenRange(1, 3), TokenRange(38, 44)]

    draw_trace(texts[:n], [0.5] * n, handed, "A title", tmp_path / "a.png")

    assert (tmp_path / "a.png").exists()


def test_the_trace_with_most_segments_that_fits_is_shown():
    some = [TokenRange(0, 1)]

    assert pick_trace([some, some * 3, some * 2], [50, 10_000, 60]) == 2
    assert pick_trace([some, some * 3], [9000, 10_000]) == 1


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    with pytest.raises(ConfigError, match=r"pip install 'relaygen-lmeval\[report\]'"):
        draw_trace(["a"], [0.5], [], "", tmp_path / "a.png")
