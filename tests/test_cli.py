"""The commands, as a user types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from relaygen_lmeval.cli import _with_model, app
from relaygen_lmeval.demo import demo_path
from relaygen_lmeval.errors import RelayGenError
from relaygen_lmeval.report.summary import read_runs


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    return result.output


def lm_eval(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The stock command, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "lm_eval", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        check=False,
    )


def test_path_names_the_folder_of_the_pair():
    assert shown("path", "demo").strip() == str(demo_path())
    assert (Path(shown("path", "tasks").strip()) / "relaygen_arithmetic.yaml").is_file()


def test_help_names_every_command():
    for command in ("eval", "path", "summary", "bench"):
        assert command in shown("--help")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["--tasks", "x"], ["--model", "relaygen", "--tasks", "x"]),
        (["run", "--tasks", "x"], ["run", "--model", "relaygen", "--tasks", "x"]),
        (["--model", "hf"], ["--model", "hf"]),
        (["ls", "tasks"], ["ls", "tasks"]),
    ],
)
def test_eval_names_the_model_where_the_user_does_not(given, wanted):
    assert _with_model(given) == wanted


@pytest.mark.slow
def test_the_stock_command_scores_the_embedded_task(tmp_path):
    ran = lm_eval(
        *("--model", "relaygen", "--tasks", "relaygen_arithmetic", "--limit", "3"),
        *("--apply_chat_template", "--batch_size", "3", "--output_path", "results"),
        folder=tmp_path,
    )

    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "relaygen_arithmetic" in ran.stdout
    [file] = tmp_path.rglob("results*.json")
    config = json.loads(file.read_text())["config"]
    assert config["relay"]["totals"]["relaygen_arithmetic"]["n"] == 3
    if not torch.cuda.is_available():  # the harness asks for cuda where the user asks for nothing
        assert {model["dtype"] for model in config["relay"]["models"]} == {"torch.float32"}
    assert len(list((tmp_path / "relaygen_logs").rglob("journal.jsonl"))) == 1
    [run] = read_runs([tmp_path])
    assert (run.task, run.policy, run.n) == ("relaygen_arithmetic", "relay", 3)
    assert "relaygen_arithmetic" in shown("summary", str(tmp_path))


@pytest.mark.slow
def test_an_error_of_ours_is_one_line_and_no_traceback(tmp_path):
    ran = lm_eval(
        *("--model", "relaygen", "--model_args", "polcy=large", "--tasks", "relaygen_arithmetic"),
        folder=tmp_path,
    )

    assert ran.returncode != 0
    assert "Traceback" not in ran.stderr
    assert "relaygen: unknown option 'polcy'" in ran.stderr
    assert "did you mean 'policy'?" in ran.stderr


def results(folder: Path, policy: str, value: float, e2e_s: float) -> None:
    content: dict[str, Any] = {
        "results": {"t": {"alias": "t", "exact_match,none": value, "exact_match_stderr,none": 0.1}},
        "n-samples": {"t": {"effective": 10}},
        "config": {
            "model": "relaygen",
            "relay": {
                "policy": policy,
                "totals": {"t": {"e2e_mean_s": e2e_s, "tokens_per_s": 100.0, "share": 0.5}},
            },
        },
    }
    (folder / f"results_{policy}.json").write_text(json.dumps(content))


def test_summary_compares_runs(tmp_path):
    results(tmp_path, "large", 0.9, 2.0)
    results(tmp_path, "relay", 0.8, 1.0)

    table = shown("summary", str(tmp_path))

    assert "2.00x" in table
    assert "0.800 ± 0.100" in table


def test_summary_of_nothing(tmp_path):
    with pytest.raises(RelayGenError, match="no results"):
        read_runs([tmp_path])
