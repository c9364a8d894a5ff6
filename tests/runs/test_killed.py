"""A process that is killed again and again loses nothing that was finished."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

from relaygen_lmeval.journal import key
from tests.runs.command import (
    exit_code,
    lines,
    requests,
    results,
    samples,
    scores,
    start,
    wait_for,
)

N_KILLS = 20
SAMPLED = ("--tasks", "relaygen_arithmetic_sampled", "--limit", "20", "--batch_size", "4")


def kill(folder: Path, rng: random.Random) -> None:
    """At a random moment: of its start, or of the work."""
    process = start(folder, *SAMPLED, resume="auto")
    if rng.random() < 0.2:
        time.sleep(rng.uniform(0, 2))
    else:
        wait_for(folder, len(lines(folder)) + 1 + rng.randrange(4), process)
        time.sleep(rng.uniform(0, 0.1))
    process.kill()
    assert exit_code(process) == -signal.SIGKILL


def test_what_twenty_kills_leave_is_an_uninterrupted_run(tmp_path):
    rng = random.Random(8)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert exit_code(start(whole, *SAMPLED)) == 0

    for _ in range(N_KILLS):
        before = [line for line in lines(killed) if line.endswith(b"\n")]
        kill(killed, rng)
        assert lines(killed)[: len(before)] == before
    n_before = len(requests(killed))
    assert exit_code(start(killed, *SAMPLED, resume="auto")) == 0

    # No key twice: what was in flight was never written, and nothing else was done again.
    ours = {key(record): record for record in requests(killed)}
    theirs = {key(record): record for record in requests(whole)}
    assert ours.keys() == theirs.keys()
    assert len(ours) == len(requests(killed)) == 80 > n_before > 0
    for name in ("text", "answer", "finish", "flags", "handoffs"):
        assert {k: record[name] for k, record in ours.items()} == {
            k: record[name] for k, record in theirs.items()
        }
    assert samples(killed) == samples(whole)
    assert scores(killed) == scores(whole)
    starts = results(killed)["config"]["relay"]["runs"]
    assert sum(start["n"] for start in starts) == 80
    assert len(starts) > 5
