"""Samples and journal meet by task, prompt and repeat."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from relaygen_lmeval.cli import app
from relaygen_lmeval.errors import JournalError, RelayGenError
from relaygen_lmeval.report.join import join_results, write_table


def record(
    doc_id: int, repeat: int, answer: str, e2e_s: float = 1.0, **more: Any
) -> dict[str, Any]:
    return {
        "kind": "request",
        "task": "t",
        "doc_id": doc_id,
        "repeat": repeat,
        "prompts": {"large": more.pop("prompt", f"prompt {doc_id}")},
        "prompt_tokens": {"large": 3, "small": 4},
        "n_tokens": 9,
        "e2e_s": e2e_s,
        "flags": more.pop("flags", []),
        "segments": [
            {"role": "large", "wait_s": 0.1, "prefill_s": 0.2, "decode_s": 0.3, "token_ids": [1]},
            {"role": "small", "wait_s": 0.0, "prefill_s": 0.1, "decode_s": 0.2, "token_ids": [2]},
        ],
        "text": "long",
        "answer": answer,
        **more,
    }


def sample(doc_id: int, texts: list[str], prompt: str, **scores: Any) -> dict[str, Any]:
    return {
        "doc_id": doc_id,
        "doc": {"answer": "7"},
        "target": "7",
        "resps": [texts],
        "filter": "none",
        "metrics": list(scores),
        "prompt_hash": hashlib.sha256(prompt.encode()).hexdigest(),
        **scores,
    }


def lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Writes a run: its journal's records and its samples."""

    def write(records: list[dict[str, Any]], samples: list[dict[str, Any]]) -> Path:
        (tmp_path / "log").mkdir(exist_ok=True)
        lines(
            tmp_path / "log" / "journal.jsonl",
            [{"kind": "header", "schema": 1}, *records],
        )
        relay = {
            "policy": "relay",
            "models": [{"role": "large", "name": "L"}, {"role": "small", "name": "S"}],
            "journal": "log/journal.jsonl",
            "run": 1,
        }
        results = tmp_path / "results" / "L"
        results.mkdir(parents=True, exist_ok=True)
        content = {"config": {"relay": relay}}
        (results / "results_2023.json").write_text(json.dumps(content))
        lines(results / "samples_t_2023.jsonl", samples)
        return results.parent

    return write


def test_a_row_has_the_verdict_of_its_text_and_its_seconds(run):
    texts = [r"\boxed{7}", r"\boxed{8}", r"\boxed{7}", r"\boxed{7}"]
    records = [
        record(0, i, text, i + 1.0, flags=["reasoning_closed"] if i == 3 else [])
        for i, text in enumerate(texts)
    ]
    folder = run(
        list(reversed(records)), [sample(0, texts, "prompt 0", **{"avg@4": 0.5, "truncated": 0.25})]
    )

    rows = join_results(folder)

    assert [row["repeat"] for row in rows] == [0, 1, 2, 3]
    assert [row["correct"] for row in rows] == [1.0, 0.0, 1.0, 0.0]  # the last was cut
    assert [row["e2e_s"] for row in rows] == [1.0, 2.0, 3.0, 4.0]
    first = rows[0]
    assert (first["policy"], first["large"], first["small"]) == ("relay", "L", "S")
    assert (first["metric"], first["value"]) == ("avg@4", 0.5)
    assert (first["prompt_tokens_large"], first["prompt_tokens_small"]) == (3, 4)
    assert (first["wait_s"], first["prefill_s"], first["decode_s"]) == (0.1, 0.3, 0.5)
    assert "token_ids" not in first["segments"][0]
    assert not {"text", "answer", "prompts", "kind"} & set(first)


def test_documents_numbered_otherwise_meet_by_their_prompt(run):
    """With --samples the harness counts from 0 for us and by the data set for itself."""
    records = [record(0, 0, "a", 1.0, prompt="p7"), record(1, 0, "b", 2.0, prompt="p9")]
    folder = run(
        records, [sample(7, ["a"], "p7", exact_match=1), sample(9, ["b"], "p9", exact_match=0)]
    )

    rows = join_results(folder)

    assert [(r["doc_id"], r["e2e_s"], r["correct"]) for r in rows] == [(7, 1.0, 1.0), (9, 2.0, 0.0)]


def test_equal_prompts_meet_by_document(run):
    records = [record(i, 0, "a", float(i), prompt="same") for i in (0, 1)]
    folder = run(records, [sample(i, ["a"], "same", exact_match=1) for i in (0, 1)])

    assert [row["e2e_s"] for row in join_results(folder)] == [0.0, 1.0]


def test_a_text_from_a_cache_has_no_seconds(run):
    folder = run(
        [record(0, 0, "other")],
        [sample(0, ["a"], "prompt 0", acc=1.0), sample(1, ["b"], "prompt 1", acc=1.0)],
    )

    assert [row.get("e2e_s") for row in join_results(folder)] == [None, None]


def test_later_starts_in_the_same_folder_are_left_out(run):
    records = [record(0, 0, "a", 1.0), record(0, 0, "a", 99.0, run=2)]
    folder = run(records, [sample(0, ["a"], "prompt 0", acc=1.0)])

    assert [row["e2e_s"] for row in join_results(folder)] == [1.0]


def test_the_journals_of_all_processes_are_read(run, tmp_path):
    samples = [sample(i, ["a"], f"prompt {i}", acc=1.0) for i in range(3)]
    folder = run([record(0, 0, "a", 1.0)], samples)
    for i in (1, 2):
        rank = tmp_path / "log" / f"journal.rank{i}.jsonl"
        lines(rank, [{"kind": "header", "schema": 1}, record(i, 0, "a", i + 1.0)])

    assert [row["e2e_s"] for row in join_results(folder)] == [1.0, 2.0, 3.0]


def test_stop_strings_were_cut_from_what_was_scored(run):
    folder = run([record(0, 0, "a\n\nQuestion:")], [sample(0, ["a"], "prompt 0", acc=1.0)])

    assert join_results(folder)[0]["n_tokens"] == 9


def test_the_table_is_the_same_in_both_files(run, tmp_path):
    folder = run(
        [record(0, 0, "a", 1.5)],
        [sample(0, ["a"], "prompt 0", acc=1.0), sample(1, ["b"], "prompt 1", acc=0.5)],
    )
    rows = join_results(folder)
    parquet, text = write_table(rows, tmp_path / "joined")

    read = pyarrow.parquet.read_table(parquet).to_pylist()
    assert read == rows
    assert [json.loads(line) for line in text.read_text().splitlines()] == rows


def test_the_command_writes_both(run):
    folder = run(
        [record(0, 0, "a")],
        [sample(0, ["a"], "prompt 0", acc=1.0), sample(1, ["b"], "prompt 1", acc=1.0)],
    )

    result = CliRunner().invoke(app, ["join", str(folder)], env={"COLUMNS": "200"})

    assert result.exit_code == 0, result.output
    assert result.output.count(": 2 rows, 1 of them not in the journal") == 2
    assert (folder / "joined.parquet").is_file()


def test_a_journal_that_moved_is_named(run, tmp_path):
    folder = run([record(0, 0, "a")], [sample(0, ["a"], "prompt 0", acc=1.0)])
    (tmp_path / "log").rename(tmp_path / "elsewhere")

    with pytest.raises(JournalError, match="name it with --journal"):
        join_results(folder)
    assert join_results(folder, tmp_path / "elsewhere" / "journal.jsonl")[0]["e2e_s"] == 1.0


def test_nothing_to_join_says_what_to_do(tmp_path):
    (tmp_path / "results_1.json").write_text(json.dumps({"config": {"model": "hf"}}))

    with pytest.raises(RelayGenError, match="--log_samples"):
        join_results(tmp_path)
