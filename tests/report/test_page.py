"""The page in a real browser, without a network: what it shows, filters, compares and escapes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from relaygen_lmeval.cli import app
from relaygen_lmeval.report.compare import compare
from relaygen_lmeval.report.gather import gather
from relaygen_lmeval.report.traces import to_json, traces_of

from .conftest import request, segment

pytest.importorskip("jinja2", reason="jinja2, of relaygen-lmeval[report], is missing")
pytest.importorskip("matplotlib", reason="matplotlib, of relaygen-lmeval[report], is missing")

CHROMIUM = next(
    (
        path
        for path in ("/usr/bin/chromium", shutil.which("chromium"))
        if path and Path(path).exists()
    ),
    None,
)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
EVIL = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 2'>So,"


def evil_request(doc: int) -> dict[str, Any]:
    segments = [
        segment("large", 6, EVIL, ended_by="cue", matched="So,"),
        segment("small", 3, " 𝟛 is <b>it</b>.\n"),
        segment(None, 1, "</think>", ended_by="closed", decode_s=0.0),
        segment("small", 2, "ok", phase="answer", ended_by="length"),
    ]
    text = EVIL + " 𝟛 is <b>it</b>.\n</think>ok"
    prompt = {"large": "<script>window.broken = 3</script> What?"}
    flags = ["truncated"]
    return request(doc, segments=segments, text=text, prompts=prompt, flags=flags)


@pytest.fixture
def runs(write_run, tmp_path):
    """Three problems; relay is wrong on the second, large on the third, which is evil."""
    plain = [segment("large", 9, "<think>4</think>"), segment("large", 1, "4", phase="answer")]
    records = [request(d, e2e_s=2.0, segments=plain, text="<think>4</think>4") for d in range(2)]
    prompts = {"large": "<script>window.broken = 3</script> What?"}
    last = request(2, e2e_s=2.0, segments=plain, text="<think>4</think>4", prompts=prompts)
    write_run("in/<i>large", "large", [*records, last], [1.0, 1.0, 0.0])
    write_run("in/relay", "relay", [request(0), request(1), evil_request(2)], [1.0, 0.0, 1.0])
    return tmp_path / "in"


@pytest.fixture
def html(runs, tmp_path):
    result = CliRunner().invoke(app, ["report", str(runs), "--output", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    return tmp_path / "out" / "report.html"


@pytest.fixture
def page(html) -> Iterator[Any]:
    """The page opened; at the end nothing has been complained of, and nothing was asked for."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is missing")
    if CHROMIUM is None:
        pytest.skip("chromium is missing")
    said: list[str] = []
    asked: list[str] = []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda of: asked.append(of.url))
        page.goto(html.as_uri())
        page.wait_for_selector("#problems button")
        yield page
        browser.close()
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [html.as_uri()]


def listed(page) -> list[str]:
    return [re.sub(r"\D+", "", t)[:1] for t in page.locator("#problems button").all_inner_texts()]


def current(page) -> str:
    return str(page.locator("#problems [aria-current] span:last-child").inner_text())[0]


def test_tables_pictures_and_texts_are_there(page):
    assert page.locator("table tbody tr").count() == 2
    assert "+0.0" in page.locator("tbody tr", has_text="relay").inner_text()
    images = page.locator("figure img")
    assert images.count() == 5
    for i in range(5):
        images.nth(i).scroll_into_view_if_needed()
        page.wait_for_function(
            "i => document.querySelectorAll('figure img')[i].naturalWidth > 300", arg=i
        )
    assert listed(page) == ["1", "2", "3"]
    assert page.locator("#left option:checked").inner_text() == "relay"  # the one with cues
    assert page.locator(".text mark").inner_text() == "So,"
    assert page.locator(".text .seg.large").count() == 1
    assert page.locator(".text .seg.small").count() == 3
    assert page.locator("#target").inner_text() == "Right answer: 7"


def test_times_are_shown_on_hover_and_tap(page):
    page.locator(".text .seg.large").hover()

    told = page.locator("#detail").inner_text()
    assert told == (
        "large model, reasoning; 6 tokens; waited 10 ms, catch-up 20 ms, decode 100 ms; "
        "ended by cue “So,”"
    )
    assert page.locator(".text .seg.large").get_attribute("title") == told
    page.locator(".text .seg.answer").click()
    assert page.locator("#detail").inner_text().startswith("small model, answer; 2 tokens")


def test_filters_leave_what_fits(page):
    assert page.locator("#filters label").count() == 7  # every control has one
    page.select_option("#verdict", "wrong")
    assert listed(page) == ["2"]
    assert page.locator("#count").inner_text() == "1 of 3 problems"
    page.select_option("#verdict", "right")
    assert listed(page) == ["1", "3"]
    page.check("#truncated")
    assert listed(page) == ["3"]
    page.uncheck("#truncated")
    page.select_option("#verdict", "")
    page.select_option("#cue", "So,")
    assert listed(page) == ["1", "2", "3"]
    page.fill("#search", "problem 1")
    assert listed(page) == ["2"]
    page.fill("#search", "nowhere")
    assert listed(page) == []
    assert page.locator("#shown").is_hidden()


def test_two_policies_stand_side_by_side(page):
    page.select_option("#right", label="large")
    page.select_option("#verdict", "differ")

    assert listed(page) == ["2", "3"]
    left, right = page.locator(".pane").all()
    assert left.locator("h3").inner_text() == "relay ✗ wrong"
    assert right.locator("h3").inner_text() == "large ✓ right"
    assert left.bounding_box()["y"] == right.bounding_box()["y"]
    assert "2 s, 10 tokens, 100 % by the large model" in right.inner_text()


def test_the_keyboard_goes_through_the_problems_and_searches(page):
    page.keyboard.press("j")
    assert current(page) == "2"
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert current(page) == "3"
    page.keyboard.press("k")
    assert current(page) == "2"
    page.locator("#problems [aria-current]").focus()
    page.keyboard.press("ArrowUp")
    assert current(page) == "1"
    page.keyboard.press("/")
    page.keyboard.type("jk")
    assert page.locator("#search").input_value() == "jk"
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert page.locator("#search").input_value() == "jk"
    assert listed(page) == []


def test_what_models_write_stays_text(page):
    page.select_option("#right", label="large")
    page.keyboard.press("j")
    page.keyboard.press("j")

    assert page.locator(".text").first.inner_text().startswith(EVIL)
    assert "𝟛 is <b>it</b>." in page.locator(".text").first.inner_text()
    assert "window.broken = 3" in page.locator("#prompt").inner_text()
    assert page.locator(".text .seg.added").inner_text() == "</think>"
    assert page.evaluate("window.broken") is None
    assert page.locator(".text img, .text b, #shown script").count() == 0


def test_a_narrow_screen_is_not_wider_than_itself(page):
    page.set_viewport_size({"width": 375, "height": 740})
    page.select_option("#right", label="large")
    page.select_option("#verdict", "differ")

    assert page.evaluate("document.documentElement.scrollWidth") == 375
    left, right = page.locator(".pane").all()
    assert right.bounding_box()["y"] > left.bounding_box()["y"]  # one above the other


def test_no_byte_of_a_text_can_end_the_data(html):
    text = html.read_text(encoding="utf-8")

    (data,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL
    )
    assert "<" not in data
    problems = json.loads(data)["tasks"][0]["problems"]
    assert problems[2]["texts"][1][-1][0][2] == EVIL
    assert not re.search(r"(src|href)=[\"'](?!data:|#)", text.replace(data, ""))


def test_texts_keep_to_their_budget(runs):
    gathered = gather([runs])

    (everything,) = traces_of(gathered, 10**6)
    (two,) = traces_of(gathered, len(json.dumps(everything.problems[:2])))

    assert (len(everything.problems), len(two.problems), two.n_problems) == (3, 2, 3)


def test_the_page_says_what_it_left_out(runs):
    from relaygen_lmeval.report.page import ROOM, render_page

    gathered = gather([runs])
    (traces,) = traces_of(gathered, 10**6)
    room = len(to_json(traces.problems[0])) + 100

    page = render_page(gathered, compare(gathered), [], max_bytes=ROOM + room)

    assert "t: this page has room for the texts of 1 of 3 problems" in page
    assert len(page) < ROOM


def test_embedded_pictures_keep_the_colours_of_policies_apart(tmp_path):
    import base64
    import io

    from matplotlib.figure import Figure
    from PIL import Image

    from relaygen_lmeval.report.page import data_url

    figure = Figure(figsize=(8, 4), dpi=150)
    axes = figure.subplots()
    axes.plot([], color="C0", label="hidden behind another, so in the legend alone")
    for i in range(1, 10):
        axes.plot(np.sin(np.arange(30) / (i + 2)), color=f"C{i}", linewidth=4, label=f"policy {i}")
    figure.legend()
    figure.savefig(tmp_path / "lines.png")

    embedded = Image.open(
        io.BytesIO(base64.b64decode(data_url(tmp_path / "lines.png").partition(",")[2]))
    )

    with Image.open(tmp_path / "lines.png") as whole:
        drawn, shown = (np.asarray(of.convert("RGB"), dtype=int) for of in (whole, embedded))
    for color in ((0x1F, 0x77, 0xB4), (0x17, 0xBE, 0xCF), (0xFF, 0x7F, 0x0E), (0xD6, 0x27, 0x28)):
        found = shown[(drawn == color).all(axis=-1)]
        assert len(found) > 30
        assert abs(found - color).max() < 8


def test_another_models_text_is_shown_whole(tmp_path):
    from .conftest import lines, sample

    (tmp_path / "results_1.json").write_text(json.dumps({"config": {"model": "hf"}}))
    lines(tmp_path / "samples_t_1.jsonl", [sample(request(0), 1.0)])

    (traces,) = traces_of(gather([tmp_path]), 10**6)

    assert traces.problems[0]["texts"] == [[1.0, [], None, None, None, [[3, 1, "\\boxed{0}"]]]]
