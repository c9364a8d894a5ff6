"""Pictures are drawn where there is something to show, and are readable files."""

from __future__ import annotations

import pytest

from relaygen_lmeval.report.compare import compare
from relaygen_lmeval.report.gather import gather

from .conftest import request, segment

pytest.importorskip("matplotlib", reason="matplotlib, of relaygen-lmeval[report], is missing")
image = pytest.importorskip("matplotlib.image")


def draw(folder, output):
    from relaygen_lmeval.report.pictures import draw_pictures

    gathered = gather([folder])
    output.mkdir()
    return draw_pictures(gathered, compare(gathered), output)


def test_all_pictures_are_drawn(write_run, tmp_path):
    records = [request(d, e2e_s=2.0, segments=[segment("large", 9, "a")]) for d in range(4)]
    write_run("in/large", "large", records, [1.0] * 4)
    write_run("in/relay", "relay", [request(d) for d in range(4)], [1.0, 1.0, 0.0, 1.0])

    drawn = draw(tmp_path / "in", tmp_path / "out")

    assert [picture.path.name for picture in drawn] == [
        f"t-{kind}.png" for kind in ("accuracy", "time", "share", "lengths", "cues")
    ]
    for picture in drawn:
        pixels = image.imread(picture.path)
        assert min(pixels.shape[:2]) > 150
        assert pixels.std() > 0.02  # not blank


def test_without_verdicts_or_relays_there_are_fewer(write_run, tmp_path):
    records = [request(d, segments=[segment("large", 9, "a")]) for d in range(2)]
    write_run("in/large", "large", records)

    drawn = draw(tmp_path / "in", tmp_path / "out")

    assert [picture.path.name for picture in drawn] == ["t-time.png", "t-share.png"]


def test_texts_of_models_and_tasks_are_no_markup_and_no_paths(write_run, tmp_path):
    odd = segment("large", 6, "$x_{", ended_by="cue", matched="$x_{\n")
    records = [request(d, task="../t/$", segments=[odd, segment("small", 2, "b")]) for d in (0, 1)]
    write_run("in/large", "large", records)

    drawn = draw(tmp_path / "in", tmp_path / "out")

    assert {picture.path.parent for picture in drawn} == {tmp_path / "out"}
    assert "cues" in drawn[-1].path.name
