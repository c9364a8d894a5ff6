"""Joins what the harness scored with what the journal measured: a row a text.

The harness's `samples_*.jsonl` know the verdicts, the journal knows the seconds and the tokens.
They meet by task, prompt and repeat: with `--samples` the two number documents differently, and a
prompt is what both have seen.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from relaygen_lmeval.errors import JournalError, RelayGenError
from relaygen_lmeval.journal import read_journal
from relaygen_lmeval.journal.reading import files
from relaygen_lmeval.scoring.response import Response
from relaygen_lmeval.scoring.results import verdicts

Row = dict[str, Any]
Record = Mapping[str, Any]

# Of a journal record: who it is, which the sample says too, and texts, which are long.
_LEFT_OUT = frozenset({"kind", "task", "doc_id", "repeat", "prompts", "text", "answer"})


class Match(NamedTuple):
    """A text that was scored, and what the journal has of it.

    Attributes:
        task: Of the harness.
        sample: As the harness logs it.
        repeat: Which of the document's texts.
        text: What was scored.
        record: Its request; `None` where the text came from a cache, or from another model.
        metric: The task's first metric that is a number.
        value: What it is for the document.
        correct: What this text is worth; `None` where only the document's mean is known.
    """

    task: str
    sample: Record
    repeat: int
    text: str
    record: Record | None
    metric: str | None
    value: float | None
    correct: float | None


def join_results(folder: Path, journal: Path | None = None) -> list[Row]:
    """Join every run of a relay below a folder.

    Args:
        folder: What `--output_path` named, with `results*.json` and, by `--log_samples`,
            `samples_*.jsonl`.
        journal: The journal, where it is not any more where the results say.

    Returns:
        A row for each task, filter, document and repeat; all have the same columns. Fields of
        the journal are `None` where a text came from `--use_cache`.

    Raises:
        RelayGenError: No results of a relay, no samples, or no journal.
    """
    rows = [row for file in sorted(folder.rglob("results*.json")) for row in _rows(file, journal)]
    if not rows:
        raise RelayGenError(
            f"no samples of a relay below {folder}; make some with lm_eval --model relaygen "
            "--output_path FOLDER --log_samples"
        )
    columns = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in columns} for row in rows]


def write_table(rows: Sequence[Row], stem: Path) -> list[Path]:
    """Write the rows as `STEM.parquet` and `STEM.jsonl`; gives both paths."""
    import pyarrow
    import pyarrow.parquet

    parquet, lines = (stem.with_name(stem.name + end) for end in (".parquet", ".jsonl"))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), parquet)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    lines.write_text(text, encoding="utf-8")
    return [parquet, lines]


def _rows(file: Path, journal: Path | None) -> Iterator[Row]:
    """The rows of one run; none of another model's."""
    results = json.loads(file.read_text(encoding="utf-8"))
    relay = results.get("config", {}).get("relay")
    if relay is None:
        return
    run = {"policy": relay["policy"], **{m["role"]: m["name"] for m in relay["models"]}}
    for match in matches(file, requests_of(file, results, journal)):
        yield {**run, **_row(match)}


def matches(file: Path, records: Iterable[Record]) -> Iterator[Match]:
    """Give every text that a run of the harness scored.

    Args:
        file: A `results*.json`, with its `samples_*.jsonl` beside it.
        records: The requests of its journal; none for a model that writes none.
    """
    time, found = file.stem.partition("_")[2], _Records(records)
    for samples in sorted(file.parent.glob(f"samples_*_{time}.jsonl")):
        task = samples.stem.removeprefix("samples_").removesuffix(f"_{time}")
        for line in samples.read_text(encoding="utf-8").splitlines():
            yield from _matched(task, json.loads(line), found)


def _matched(task: str, sample: Mapping[str, Any], found: _Records) -> Iterator[Match]:
    """All repeats of one sample."""
    texts = [text for request in sample["resps"] for text in request]
    records = [found.find(task, sample, repeat, text) for repeat, text in enumerate(texts)]
    metric, value = _metric(sample)
    worth = _correct(sample, texts, records, value)
    for repeat, (text, record, correct) in enumerate(zip(texts, records, worth, strict=True)):
        yield Match(task, sample, repeat, text, record, metric, value, correct)


def _row(match: Match) -> Row:
    return {
        "task": match.task,
        "filter": match.sample["filter"],
        "doc_id": match.sample["doc_id"],
        "repeat": match.repeat,
        "target": str(match.sample["target"]),
        "response": match.text,
        "metric": match.metric,
        "value": match.value,
        "correct": match.correct,
        **_flat(match.record or {}),
    }


def _correct(
    sample: Mapping[str, Any],
    texts: Sequence[str],
    records: Sequence[Record | None],
    value: float | None,
) -> list[float | None]:
    """What each repeat is worth; the harness logs the mean of a document's repeats alone."""
    if len(texts) == 1:
        return [value]
    if f"avg@{len(texts)}" not in sample["metrics"]:
        return [None] * len(texts)
    flags = [record["flags"] if record else () for record in records]
    responses = [Response(t, "reasoning_closed" in f) for t, f in zip(texts, flags, strict=True)]
    return [float(right) for right in verdicts(sample["doc"], responses)]


class _Records:
    """A journal's requests by what identifies them to the harness as well."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._by_key: dict[tuple[str, str, int], list[Record]] = defaultdict(list)
        for record in records:
            prompt = hashlib.sha256(record["prompts"]["large"].encode()).hexdigest()
            self._by_key[record["task"], prompt, record["repeat"]].append(record)

    def find(self, task: str, sample: Mapping[str, Any], repeat: int, text: str) -> Record | None:
        """The latest request with this text, of this document where prompts are alike.

        A text that none of them wrote came from a cache.
        """
        alike = self._by_key[task, sample["prompt_hash"], repeat]
        fitting = [record for record in alike if record["answer"].startswith(text)]
        same_doc = [record for record in fitting if record["doc_id"] == sample["doc_id"]]
        return next(reversed(same_doc or fitting), None)


def _metric(sample: Mapping[str, Any]) -> tuple[str | None, float | None]:
    """The task's first metric that is a number."""
    for name in sample["metrics"]:
        if isinstance(value := sample.get(name), int | float):
            return name, float(value)
    return None, None


def _flat(record: Record) -> Row:
    """The record's fields, each in a column; ids of tokens are left to the journal."""
    row: Row = {}
    for name, value in record.items():
        if name == "segments":
            row |= _times(value)
            row["segments"] = [{k: v for k, v in s.items() if k != "token_ids"} for s in value]
        elif name not in _LEFT_OUT and isinstance(value, Mapping):
            row |= {f"{name}_{key}": part for key, part in value.items()}
        elif name not in _LEFT_OUT:
            row[name] = value
    return row


def _times(segments: Sequence[Record]) -> Row:
    """Seconds of all segments: waited, prefilled and decoded."""
    names = ("wait_s", "prefill_s", "decode_s")
    return {name: round(sum(segment[name] for segment in segments), 6) for name in names}


def journal_of(file: Path, relay: Mapping[str, Any]) -> Path:
    """Where the results say, seen from here or from a folder above them; or beside them.

    Raises:
        JournalError: It is at none of these places.
    """
    named = Path(relay["journal"])
    for path in (*(base / named for base in (Path(), *file.parents)), file.with_name(named.name)):
        if path.is_file():
            return path
    raise JournalError(
        f"the journal of {file} is not at {named}; name it with --journal, or run this where "
        "lm_eval was run"
    )


def requests_of(
    file: Path, results: Mapping[str, Any], journal: Path | None = None
) -> list[Record]:
    """Read the requests behind the results of a relay.

    Args:
        file: The `results*.json`.
        results: What it holds.
        journal: The journal, where it is not any more where the results say.

    Raises:
        JournalError: It cannot be found or read.
    """
    path = journal or journal_of(file, results["config"]["relay"])
    return _requests(path, results["config"]["relay"].get("run"))


def _requests(path: Path, run: int | None) -> list[Record]:
    """The requests of a run, of all its processes and of earlier starts that it went on from.

    Args:
        path: One of the run's journals; the others lie beside it.
        run: The start whose results these are; a later one is another matter.
    """
    beside = files(path.parent)
    everything = (r for file in (beside if path in beside else [path]) for r in read_journal(file))
    requests = [record for record in everything if record["kind"] == "request"]
    return [r for r in requests if run is None or r.get("run", 1) <= run]
