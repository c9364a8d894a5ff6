"""Ctrl-C and a scheduler's signal end a run in good order, and in time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.runs.command import command, exit_code, lines, requests, start, wait_for

GREEDY = ("--tasks", "relaygen_arithmetic", "--limit", "60", "--batch_size", "4")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_the_run_and_says_how_to_go_on(tmp_path, name):
    number = signal.Signals[name]
    process = start(tmp_path, *GREEDY)
    wait_for(tmp_path, 4, process)
    assert process.pid is not None

    os.kill(process.pid, number)
    code = exit_code(process, timeout_s=20)

    assert code == 128 + number
    assert all(line.endswith(b"\n") for line in lines(tmp_path))
    said = (tmp_path / "stderr.txt").read_text()
    n = len(requests(tmp_path))
    assert 3 <= n < 60
    journal = tmp_path / "log" / "journal.jsonl"
    assert f"stopped by {name}. {n} of 60 requests are finished, in {journal}" in said
    assert f"resume={tmp_path / 'log'} in --model_args" in said
    assert "Traceback" not in said

    assert exit_code(start(tmp_path, *GREEDY, resume="auto")) == 0
    assert len(requests(tmp_path)) == 60


def test_the_command_itself_ends_with_the_signals_code(tmp_path):
    """An interpreter that takes itself down beside torch's threads may abort instead."""
    line = [sys.executable, "-m", *command(tmp_path, *GREEDY)]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while len(lines(tmp_path)) < 4 and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)

    assert process.returncode == 128 + signal.SIGTERM
    assert b"stopped by SIGTERM" in said
    assert b"terminate called" not in said


@pytest.fixture
def stuck() -> Iterator[subprocess.Popen[bytes]]:
    """A process in a step that takes for ever."""
    code = """
import time
from relaygen_lmeval.stopping import stops_on_signals
with stops_on_signals(lambda: None, lambda name: print(name, flush=True)):
    print("ready", flush=True)
    while True:
        time.sleep(0.01)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_second_signal_ends_the_process_at_once(stuck):
    stuck.send_signal(signal.SIGINT)
    time.sleep(0.1)
    stuck.send_signal(signal.SIGTERM)

    assert stuck.wait(timeout=20) == 128 + signal.SIGTERM


def test_a_step_that_does_not_end_is_not_waited_for(stuck):
    stuck.send_signal(signal.SIGTERM)

    assert stuck.wait(timeout=20) == 128 + signal.SIGTERM
    assert stuck.stdout.read() == b"SIGTERM\n"
