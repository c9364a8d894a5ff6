"""A disk that takes no more ends the run with what to do; what it holds is kept."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from relaygen_lmeval.errors import JournalError
from relaygen_lmeval.journal import Journal, Label, read_journal
from tests.runs.command import exit_code, lines, requests, samples, start
from tests.test_journal import RESULT

GREEDY = ("--tasks", "relaygen_arithmetic", "--limit", "12", "--batch_size", "4")
FULL = Path("/dev/full")  # every write to it fails as on a full disk
LAST_LINE = b'{"kind":"request","text":"what the disk had room for'


def test_a_disk_that_fills_up_keeps_whole_lines_and_the_run_goes_on(tmp_path):
    whole, folder = tmp_path / "whole", tmp_path / "full"
    assert exit_code(start(whole, *GREEDY)) == 0
    n_bytes = sum(map(len, lines(whole))) * 2 // 3  # in the middle of a line

    assert exit_code(start(folder, *GREEDY, max_file_bytes=n_bytes)) == 1

    assert all(line.endswith(b"\n") for line in lines(folder))
    n_done = len(requests(folder))
    assert 3 <= n_done < 12
    said = (folder / "stderr.txt").read_text()
    journal = folder / "log" / "journal.jsonl"
    assert f"journal {journal} cannot be written (File too large)" in said
    assert f"Free some space and go on with resume={folder / 'log'}" in said
    assert "Traceback" not in said

    assert exit_code(start(folder, *GREEDY, resume="auto")) == 0
    assert len(requests(folder)) == 12
    assert samples(folder) == samples(whole)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_told_before_the_models_work(tmp_path):
    (tmp_path / "journal.jsonl").symlink_to(FULL)

    with pytest.raises(JournalError, match=r"No space left on device.*Free some space and go on"):
        Journal(tmp_path, {})


def test_a_full_disk_during_a_run_keeps_what_was_written(tmp_path, monkeypatch):
    journal = Journal(tmp_path, {})
    journal.write(RESULT, Label("t", 1))
    before = journal.path.read_bytes()

    def half(line: memoryview) -> int:
        """Half the line, and then no more."""
        with journal.path.open("ab") as file:
            file.write(line[: len(line) // 2])
        raise OSError(28, "No space left on device")

    class Full:
        write = staticmethod(half)
        truncate = staticmethod(lambda size: os.truncate(journal.path, size))

    monkeypatch.setattr(journal, "_file", Full())
    with pytest.raises(JournalError, match="No space left on device"):
        journal.write(RESULT, Label("t", 2))

    assert journal.path.read_bytes() == before


def test_half_a_line_that_cannot_be_taken_back_is_left_out_and_mended(tmp_path):
    journal = Journal(tmp_path, {})
    journal.write(RESULT, Label("t", 1))
    journal.close()
    with journal.path.open("ab") as file:
        file.write(LAST_LINE)

    assert [record["kind"] for record in read_journal(journal.path)] == ["header", "request"]
    Journal(tmp_path, {}, run=2).close()
    kinds = [json.loads(line)["kind"] for line in journal.path.read_bytes().splitlines()]
    assert kinds == ["header", "request", "header"]


def test_separators_of_lines_within_a_text_tear_nothing(tmp_path):
    text = "one\u2028two\u2029three\x85four\x0bfive\x0c\x1c\r\nsix\ud800"
    journal = Journal(tmp_path, {"name": text})
    journal.close()

    (header,) = read_journal(journal.path)
    assert header["name"] == text.replace("\ud800", "?")
    assert journal.path.read_bytes().count(b"\n") == 1
