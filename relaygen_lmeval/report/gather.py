"""Gathers the texts of many runs: from folders of results, from sweeps and from bare journals."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from relaygen_lmeval.errors import JournalError, ReportError
from relaygen_lmeval.journal import PATTERN, files, key, read_journal
from relaygen_lmeval.journal.identity import identity
from relaygen_lmeval.report.join import Match, journal_of, matches, requests_of
from relaygen_lmeval.report.naming import Source, names_of

Record = Mapping[str, Any]

_CELL = "cell.json"  # what a sweep leaves in the folder of each run
_NO_METRIC = "correct"
_NEEDED = [
    "task",
    "repeat",
    "prompts",
    "text",
    "answer",
    "segments",
    "flags",
    "n_tokens",
    "n_large_tokens",
    "handoffs",
    "started_s",
    "ttft_s",
    "e2e_s",
]


@dataclass(frozen=True, slots=True)
class Text:
    """One text with its verdict and its request.

    Attributes:
        task: Of the harness.
        problem: Hash of the document, the same in every run.
        run: Number of the run among those of its contestant, from 0.
        repeat: Which of the document's texts in that run.
        correct: What it is worth, in [0, 1]; `None` where nothing scored it.
        record: Its request, as the journal has it, without ids of tokens; `None` of another
            model, or where the text came from a cache.
        prompt: What was asked.
        target: The right answer; `""` where it is not known.
        answer: What was scored.
    """

    task: str
    problem: str
    run: int
    repeat: int
    correct: float | None
    record: Record | None
    prompt: str
    target: str
    answer: str


@dataclass(frozen=True, slots=True)
class Contestant:
    """All runs of one way to write; they differ in their seed alone.

    Attributes:
        name: The policy, or the sweep's cell, and what tells it from others of that name.
        texts: Of all its runs and tasks.
        small_drafts: Whether its small model drafts for the large one.
    """

    name: str
    texts: tuple[Text, ...]
    small_drafts: bool = False

    def of(self, task: str) -> list[Text]:
        """Its texts of one task."""
        return [text for text in self.texts if text.task == task]


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was found.

    Attributes:
        contestants: In the order of their folders.
        metrics: Task to the name of its metric.
        notes: What was passed over, in words.
    """

    contestants: tuple[Contestant, ...]
    metrics: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def tasks(self) -> list[str]:
        """In the order of their first texts."""
        return list(dict.fromkeys(text.task for one in self.contestants for text in one.texts))


@dataclass(frozen=True, slots=True)
class _Run:
    source: Source
    metric: str
    texts: tuple[Text, ...]


def gather(folders: Sequence[Path]) -> Gathered:
    """Read every run below the folders; seeds of one setting become one contestant.

    Args:
        folders: Folders with `results*.json` and `samples_*.jsonl` of the harness, with journals,
            or a journal itself.

    Raises:
        ReportError: A folder is not there, or there is no finished request in any.
    """
    for folder in folders:
        if not folder.exists():
            raise ReportError(f"{folder} is not there; name folders of lm_eval's --output_path, "
                              "of relaygen sweep, or of journals")  # fmt: skip
    notes: list[str] = []
    scored = [run for file in _below(folders, "results*.json") for run in _scored(file, notes)]
    known = {path for run in scored if run.source.folder for path in files(run.source.folder)}
    bare = [
        run
        for path in _below(folders, PATTERN)
        if path.resolve() not in known
        for run in _bare(path, notes)
    ]
    runs = _newest([*scored, *bare], notes)
    if not runs:
        names = ", ".join(map(str, folders))
        raise ReportError(
            f"no finished request below {names}: neither samples of lm_eval (--output_path FOLDER "
            "--log_samples) nor a journal.jsonl of --model relaygen with a request in it"
            + "".join(f"; {note}" for note in notes)
        )
    metrics = {run.texts[0].task: run.metric for run in reversed(runs)}
    return Gathered(_pooled(runs), metrics, tuple(dict.fromkeys(notes)))


def _below(folders: Iterable[Path], pattern: str) -> list[Path]:
    """Files of that name in or below the folders, or named themselves; each once."""
    found = (
        path
        for folder in folders
        for path in ([folder] if folder.is_file() else sorted(folder.rglob(pattern)))
        if path.match(pattern)
    )
    return list({path.resolve(): path for path in found}.values())


def _scored(file: Path, notes: list[str]) -> Iterator[_Run]:
    """The tasks of one run of the harness, with verdicts."""
    results = _results(file)
    relay = results.get("config", {}).get("relay")
    records: Sequence[Record] = []
    journal = None
    if relay is not None:
        try:
            journal = journal_of(file, relay).resolve()
            records = [_slim(r, journal) for r in requests_of(file, results, journal)]
        except JournalError as error:
            notes.append(f"{error}; its times are left out")
    by_task: dict[str, list[Match]] = defaultdict(list)
    try:
        for match in matches(file, records):
            by_task[match.task].append(match)
    except (KeyError, TypeError, ValueError) as error:
        raise ReportError(
            f"the samples_*.jsonl beside {file} cannot be read as lm_eval's: {error!r}; leave that "
            "folder out, or run it again"
        ) from error
    for found in by_task.values():
        found = [m for m in found if m.sample["filter"] == found[0].sample["filter"]]
        source = Source(
            _stem(file.parent, relay["policy"] if relay else _model(results)),
            relay or {"config": results.get("config", {})},
            next((m.record for m in found if m.record), {}),
            journal,
            float(results.get("date", 0.0)),
        )
        yield _Run(source, found[0].metric or _NO_METRIC, tuple(map(_text_of_match, found)))


def _bare(path: Path, notes: list[str]) -> Iterator[_Run]:
    """The runs of a journal that no results name: one for each task and configuration."""
    found: dict[tuple[str, str], dict[str, Record]] = defaultdict(dict)
    headers: dict[str, Record] = {}
    which = ""
    for record in read_journal(path):
        if record["kind"] == "header":
            which = identity(record)
            headers[which] = record
        elif record["kind"] == "request":
            found[which, record["task"]][key(record)] = _slim(record, path)
    if not found:
        notes.append(f"{path} has no finished request")
    for (which, _), records in found.items():
        texts = tuple(map(_text_of_record, records.values()))
        header, first = headers[which], next(iter(records.values()))
        stem = _stem(path.parent, str(header.get("policy", "?")))
        began_s = datetime.fromisoformat(header["time"]).timestamp()
        yield _Run(Source(stem, header, first, path.resolve(), began_s), _NO_METRIC, texts)


def _newest(runs: Sequence[_Run], notes: list[str]) -> list[_Run]:
    """Of runs that repeat each other in everything, their seed included, the last."""
    kept: dict[tuple[str, str], _Run] = {}
    for run in sorted(runs, key=lambda run: run.source.date_s):
        which = run.source.key(), run.texts[0].task
        if which in kept and kept[which].source.folder == run.source.folder is not None:
            run = replace(run, texts=kept[which].texts + run.texts)  # processes of one run
        elif which in kept:
            notes.append(f"an earlier run of {run.source.stem} with the same settings is left out")
        kept[which] = run
    return list(kept.values())


def _pooled(runs: Sequence[_Run]) -> tuple[Contestant, ...]:
    names = names_of([run.source for run in runs])
    texts: dict[str, list[Text]] = defaultdict(list)
    seen: dict[str, dict[str, int]] = defaultdict(dict)
    for run, name in zip(runs, names, strict=True):
        number = seen[name].setdefault(run.source.key(), len(seen[name]))
        texts[name] += [replace(text, run=number) for text in run.texts]
    drafting = {name for run, name in zip(runs, names, strict=True) if run.source.small_drafts}
    return tuple(Contestant(name, tuple(of), name in drafting) for name, of in texts.items())


def _text_of_match(match: Match) -> Text:
    sample, record = match.sample, match.record
    asked = sample.get("arguments", {}).get("gen_args_0", {}).get("arg_0", "")
    return Text(
        match.task,
        str(sample.get("doc_hash") or sample.get("prompt_hash")),
        0,
        match.repeat,
        match.correct,
        record,
        record["prompts"]["large"] if record else str(asked),
        str(sample["target"]),
        match.text,
    )


def _text_of_record(record: Record) -> Text:
    prompt = record["prompts"]["large"]
    problem = record.get("doc_hash") or hashlib.sha256(prompt.encode()).hexdigest()
    return Text(
        record["task"], problem, 0, record["repeat"], None, record, prompt, "", record["answer"]
    )


def _slim(record: Record, path: Path) -> Record:
    missing = [name for name in _NEEDED if name not in record]
    if missing:
        raise JournalError(
            f"{path}: a request lacks {', '.join(missing)}; it is none of this version's journals"
        )
    segments = [{k: v for k, v in s.items() if k != "token_ids"} for s in record["segments"]]
    return {**record, "segments": segments}


def _stem(folder: Path, policy: str) -> str:
    """A cell of a sweep is called as its folder, without the seed."""
    if not (folder / _CELL).is_file():
        return policy
    return re.sub(r",?\bseed=\d+", "", folder.name).strip(",") or policy


def _model(results: Mapping[str, Any]) -> str:
    """Another model of the harness."""
    return str(results.get("config", {}).get("model", "?"))


def _results(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ReportError(f"{file} cannot be read as results of lm_eval: {error}") from error
    if not isinstance(content, dict):
        raise ReportError(f"{file} cannot be read as results of lm_eval: it is no mapping")
    return content
