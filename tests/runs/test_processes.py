"""Several processes share a run, and it ends as that of one."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.harness.processes import join_processes
from relaygen_lmeval.journal import key
from relaygen_lmeval.relay import parse_options
from tests.runs.command import (
    command,
    exit_code,
    requests,
    results,
    samples,
    scores,
    start,
    start_many,
    wait_for,
)

# An odd number, so that one process has a request more than the other.
SAMPLED = ("--tasks", "relaygen_arithmetic_sampled", "--limit", "9", "--batch_size", "4")
N = 36


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one process."""
    folder = tmp_path_factory.mktemp("whole")
    assert exit_code(start(folder, *SAMPLED)) == 0
    return folder


def texts(folder: Path) -> dict[str, Any]:
    """Of all requests, and none of them twice."""
    records = requests(folder)
    by_key = {key(record): record["text"] for record in records}
    assert len(by_key) == len(records)
    return by_key


def numbers(folder: Path) -> dict[str, float]:
    values = scores(folder)["relaygen_arithmetic_sampled"]
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def assert_equal(folder: Path, whole: Path) -> None:
    assert texts(folder) == texts(whole)
    assert samples(folder) == samples(whole)
    # The harness adds up in the order of the processes, which the last bit tells.
    assert numbers(folder) == pytest.approx(numbers(whole), rel=1e-12)
    total, expected = (
        results(one)["config"]["relay"]["totals"]["relaygen_arithmetic_sampled"]
        for one in (folder, whole)
    )
    for name in ("n", "tokens_mean", "share", "handoffs_per_1000", "unfinished"):
        assert total[name] == expected[name]


def test_a_launcher_starts_two_that_share_the_requests(tmp_path, whole):
    line = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    launched = subprocess.run(
        [*line, "-m", *command(tmp_path / "two", *SAMPLED)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )

    assert launched.returncode == 0, launched.stderr
    log = tmp_path / "two" / "log"
    assert sorted(path.name for path in log.iterdir()) == [
        "journal.rank0.jsonl",
        "journal.rank1.jsonl",
    ]
    assert_equal(tmp_path / "two", whole)


@pytest.mark.parametrize(("n_before", "n_after"), [(2, 1), (1, 2), (2, 3)])
def test_another_number_of_processes_goes_on(tmp_path, whole, n_before, n_after):
    folder = tmp_path / "killed"
    killed = start_many(folder, n_before, *SAMPLED)
    wait_for(folder, n_before + 8, killed[0])
    for process in killed:
        process.kill()
        exit_code(process)
    n_done = len(requests(folder))
    assert 0 < n_done < N

    rest = start_many(folder, n_after, *SAMPLED, resume="auto")

    assert [exit_code(process) for process in rest] == [0] * n_after
    assert_equal(folder, whole)
    starts = results(folder)["config"]["relay"]["runs"]
    assert [(one["run"], one["n"]) for one in starts] == [(1, n_done), (2, N - n_done)]


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `accelerate launch --num_processes 2` leaves the environment without a GPU."""
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    monkeypatch.setenv("MASTER_PORT", "29500")
    monkeypatch.delenv("WORLD_SIZE", raising=False)


def test_one_process_instead_of_several_is_told(launched, caplog):
    with caplog.at_level(logging.WARNING):
        join_processes(parse_options({}))

    assert "has started one process only" in caplog.text
    assert "--multi_gpu" in caplog.text


def test_each_of_many_would_start_servers(monkeypatch):
    class Two:
        num_processes = 2

    monkeypatch.setattr("relaygen_lmeval.harness.processes.PartialState", lambda **given: Two())
    config = parse_options({"engine": "vllm", "pretrained": "a", "small": "b"})

    with pytest.raises(ConfigError, match="for each of 2 processes: start one pair with"):
        join_processes(config)
