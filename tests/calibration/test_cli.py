"""`relaygen calibrate`, `relaygen cues` and their help, as a user types them."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from relaygen_lmeval.cli import app
from relaygen_lmeval.cuefile import list_cue_files
from relaygen_lmeval.errors import CalibrationError


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "160", "NO_COLOR": "1"})
    assert result.exit_code == 0, result.output
    return re.sub(r"\x1b\[[0-9;]*m", "", result.output)


OPTIONS = (
    *("--output", "--model_args", "--tasks", "--limit", "--repeats", "--batch_size", "--traces"),
    *("--num_fewshot", "--apply_chat_template", "--gen_kwargs", "--log_dir", "--margins-by"),
    *("--candidates", "--discover", "--rule", "--alpha", "--min-occurrences", "--seed", "--match"),
    *("--overwrite", "--pictures"),
)


def test_the_help_is_complete():
    text = shown("calibrate", "--help")

    assert all(option in text for option in OPTIONS)


def test_the_command_calibrates(again):
    text = shown(
        *("calibrate", "--traces", str(again.traces), "--output", str(again.output)),
        *("--rule", "mean", "--no-pictures"),
    )

    assert again.output.is_file()
    assert "12 traces" in text
    assert "Expected:" in text


def test_an_output_that_exists_is_one_line(again):
    again.output.write_text("mine")

    result = CliRunner().invoke(
        app, ["calibrate", "--traces", str(again.traces), "--output", str(again.output)]
    )

    assert isinstance(result.exception, CalibrationError)
    assert again.output.read_text() == "mine"


def test_cue_files_are_listed():
    text = shown("cues", "list")

    assert all(path.stem in text for path in list_cue_files())


def test_a_cue_file_is_shown_with_its_statistics(settings, made):
    text = shown("cues", "show", str(settings.output))

    assert "margins_by" in text
    assert "relaygen_arithmetic_calibration" in text
    assert all(cue in text for cue in made.cue_file.cues)


@pytest.mark.parametrize("path", list_cue_files(), ids=lambda path: path.stem)
def test_every_shipped_file_can_be_shown(path):
    assert path.stem in shown("cues", "show", path.stem)


def test_two_cue_files_are_compared(settings, made):
    text = shown(
        "cues", "diff", "qwen3-32b__qwen3-1.7b", "r1-distill-qwen-32b__r1-distill-qwen-1.5b"
    )

    assert "Ah," in text
    assert re.search(r"\d+ of \d+ cues are in both", text)
    assert "match: word against substring" in shown(
        "cues", "diff", "qwen3-32b__qwen3-1.7b", "qwen3-32b__qwen3-1.7b_substring"
    )
