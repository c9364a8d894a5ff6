"""The record of a run: complete, append-only, readable after a crash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from relaygen_lmeval.core.timing import Timing
from relaygen_lmeval.core.types import Phase, Piece, RelayRequest, RelayResult, Role, Segment
from relaygen_lmeval.errors import JournalError
from relaygen_lmeval.journal import Journal, Label, read_journal

REQUEST = RelayRequest(0, dict.fromkeys(Role, Piece("Q", (1, 2))), max_tokens=40)


def segment(role: Role | None, n: int, start_s: float) -> Segment:
    stamps = tuple(start_s + 0.1 * i for i in range(n))
    timing = Timing(0.01, 0.1, 0.1 * (n - 1), 2, 0, stamps)
    return Segment(
        role, Phase.REASONING, "x" * n, tuple(range(n)), n, "cue", "So," if role else None, timing
    )


RESULT = RelayResult(
    REQUEST,
    text="xxxxx",
    answer="xxxxx",
    segments=(segment(Role.LARGE, 3, 10.1), segment(Role.SMALL, 2, 10.4)),
    finish="eos",
    flags=("truncated",),
    started_s=10.0,
    ended_s=10.5,
)


def test_a_record_accounts_for_every_token_and_second(tmp_path):
    journal = Journal(tmp_path / "new" / "folder", {"policy": "relay"})
    journal.write(RESULT, Label("task", 7, 1))
    journal.close()

    header, record = read_journal(journal.path)

    assert header["kind"] == "header"
    assert header["policy"] == "relay"
    assert (record["task"], record["doc_id"], record["repeat"]) == ("task", 7, 1)
    assert record["n_tokens"] == sum(s["n_tokens"] for s in record["segments"]) == 5
    assert (record["n_large_tokens"], record["n_small_tokens"]) == (3, 2)
    assert record["handoffs"] == 1
    assert record["ttft_s"] == pytest.approx(0.1)
    assert record["e2e_s"] == pytest.approx(0.5)
    assert record["flags"] == ["truncated"]
    assert sum(s["n_chars"] for s in record["segments"]) == len(record["text"])


def test_a_torn_last_line_is_left_out(tmp_path):
    journal = Journal(tmp_path, {})
    journal.write(RESULT, Label())
    journal.close()
    with journal.path.open("a") as file:
        file.write('{"kind": "request", "n_tok')

    assert [record["kind"] for record in read_journal(journal.path)] == ["header", "request"]


def test_every_line_is_on_disk_when_it_is_written(tmp_path):
    journal = Journal(tmp_path, {})
    journal.write(RESULT, Label())

    assert len(journal.path.read_text().splitlines()) == 2
    journal.close()


def test_the_schema_document_names_every_field(tmp_path):
    import relaygen_lmeval

    journal = Journal(tmp_path, {})
    record = journal.write(RESULT, Label())
    journal.close()
    document = (Path(relaygen_lmeval.__file__).parent / "JOURNAL.md").read_text(encoding="utf-8")
    fields = {*record, *record["segments"][0], *json.loads(journal.path.read_text().split("\n")[0])}

    assert {name for name in fields if f"`{name}`" not in document} == set()


def test_no_journal(tmp_path):
    (tmp_path / "journal.jsonl").write_text("not a journal\n")

    with pytest.raises(JournalError, match="its first line must be a header"):
        list(read_journal(tmp_path / "journal.jsonl"))
    with pytest.raises(JournalError, match="cannot be read"):
        list(read_journal(tmp_path / "missing.jsonl"))


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(JournalError, match="choose another folder with log_dir="):
        Journal(tmp_path / "file" / "logs", {})
