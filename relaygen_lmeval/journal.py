"""The append-only record of a run: what was asked, who wrote what, and how long it took.

`journal.jsonl` holds one JSON object a line: first the header, then one line a request as it
ends. Every field and its unit: `relaygen_lmeval/JOURNAL.md`.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO

from relaygen_lmeval.core.latency import latency_of
from relaygen_lmeval.core.timing import Drafts, Wire
from relaygen_lmeval.core.types import RelayRequest, RelayResult, Role, Segment
from relaygen_lmeval.errors import JournalError

SCHEMA = 1
FILE = "journal.jsonl"


@dataclass(frozen=True, slots=True)
class Label:
    """Where a request comes from.

    Attributes:
        task: The harness task, or `""`.
        doc_id: The document within it.
        repeat: Which of a document's repeats, from 0.
    """

    task: str = ""
    doc_id: int = 0
    repeat: int = 0


class Journal:
    """Writes one run.

    Args:
        folder: Made if it is missing.
        header: Whatever identifies the run: options, versions, models.
        rank: Process of a run over many; each writes a file of its own.

    Raises:
        JournalError: A folder that cannot be made or written.
    """

    def __init__(self, folder: Path, header: Mapping[str, Any], *, rank: int | None = None) -> None:
        self.path = folder / (FILE if rank is None else f"journal.rank{rank}.jsonl")
        self._file = _open(self.path)
        weakref.finalize(self, self._file.close)  # the harness drops a model without a word
        self._origin_s: float | None = None
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._write({"kind": "header", "schema": SCHEMA, "time": now, **header})

    def write(self, result: RelayResult, label: Label) -> dict[str, Any]:
        """Append one finished request; returns its record."""
        if self._origin_s is None:
            self._origin_s = result.started_s
        record = record_of(result, label, origin_s=self._origin_s)
        self._write(record)
        return record

    def write_failure(self, message: str, label: Label | None = None) -> None:
        """Append why the run, or the one request of `label`, has no result."""
        named = asdict(label) if label else {}
        self._write({"kind": "failure", **named, "message": message})

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, record: Mapping[str, Any]) -> None:
        try:
            self._file.write(json.dumps(record, ensure_ascii=False) + "\n")
            self._file.flush()
        except OSError as error:
            raise JournalError(
                f"journal {self.path} cannot be written ({error.strerror}); what it holds so far "
                "is kept; free some space or choose another log_dir="
            ) from error


def check_writable(folder: Path) -> None:
    """Make the folder of a journal and see that a file can be made in it.

    Raises:
        JournalError: It cannot.
    """
    probe = folder / ".writable"
    _open(probe).close()
    probe.unlink()


def record_of(result: RelayResult, label: Label, *, origin_s: float) -> dict[str, Any]:
    """A request as it stands in the journal; times in seconds, from the run's first request."""
    request = result.request
    return {
        "kind": "request",
        "task": label.task,
        "doc_id": label.doc_id,
        "repeat": label.repeat,
        "seed": request.sampling.seed,
        "sampling": _sampling(request),
        "prompts": _prompts(request),
        "prompt_tokens": {r.value: len(p.token_ids) for r, p in request.prompts.items()},
        "max_tokens": request.max_tokens,
        "max_answer_tokens": request.max_answer_tokens,
        "n_tokens": result.n_tokens,
        "n_large_tokens": result.n_tokens_by(Role.LARGE),
        "n_small_tokens": result.n_tokens_by(Role.SMALL),
        "handoffs": _handoffs(result.segments),
        "started_s": _s(result.started_s - origin_s),
        **{name: _s(value) for name, value in asdict(latency_of(result)).items()},
        "finish": result.finish,
        "flags": list(result.flags),
        "segments": [_segment(segment) for segment in result.segments],
        "text": "".join(segment.text for segment in result.segments),
        "answer": result.answer,
    }


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Read the records of a journal; a line that a crash tore is left out.

    Raises:
        JournalError: A file that is not there, or whose first line is no header.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise JournalError(f"journal {path} cannot be read: {error.strerror}") from error
    for number, line in enumerate(lines):
        record = _parse(line)
        if number == 0 and (record is None or record.get("kind") != "header"):
            raise JournalError(f"{path} is no journal: its first line must be a header")
        if record is not None:
            yield record


def _parse(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _segment(segment: Segment) -> dict[str, Any]:
    timing = segment.timing
    return {
        "role": segment.role.value if segment.role else None,
        "phase": segment.phase.value,
        "n_tokens": segment.n_tokens,
        "n_chars": len(segment.text),
        "ended_by": segment.ended_by,
        "matched": segment.matched,
        **({} if segment.score is None else {"score": round(segment.score, 4)}),
        "catch_up_tokens": timing.catch_up_tokens,
        "given_back_tokens": timing.given_back_tokens,
        "wait_s": _s(timing.wait_s),
        "prefill_s": _s(timing.prefill_s),
        "decode_s": _s(timing.decode_s),
        "drafts": _drafts(timing.drafts),
        **_wire(timing.wire),
        "token_ids": list(segment.token_ids),
    }


def _handoffs(segments: Sequence[Segment]) -> int:
    """How often the writer changed, or the phase did."""
    written = [(s.role, s.phase) for s in segments if s.role and s.n_tokens]
    return sum(a != b for a, b in pairwise(written))


def _drafts(drafts: Drafts | None) -> dict[str, float] | None:
    if drafts is None:
        return None
    return {
        "drafted": drafts.n_drafted,
        "accepted": drafts.n_accepted,
        "verified": drafts.n_verified,
        "mean_accepted": round(drafts.mean_accepted, 4),
        "draft_s": _s(drafts.draft_s),
    }


def _wire(wire: Wire | None) -> dict[str, Any]:
    """What a server added, for a segment that one wrote."""
    if wire is None:
        return {}
    told = asdict(wire)
    overhead_s = None if wire.server_s is None else wire.e2e_s - wire.server_s
    told["overhead_s"] = overhead_s
    return {"wire": {k: _s(v) if isinstance(v, float) else v for k, v in told.items()}}


def _prompts(request: RelayRequest) -> dict[str, str]:
    """What each model read; the small model's only where it differs."""
    large, small = (request.prompts[role].text for role in Role)
    return {"large": large} if small == large else {"large": large, "small": small}


def _sampling(request: RelayRequest) -> dict[str, float]:
    """How tokens were chosen; the seed has a field of its own."""
    return {name: value for name, value in asdict(request.sampling).items() if name != "seed"}


def _s(seconds: float) -> float:
    """Microseconds are as fine as the clock is honest."""
    return round(seconds, 6)


def _open(path: Path) -> TextIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a", encoding="utf-8")
    except OSError as error:
        raise JournalError(
            f"log_dir={path.parent} cannot be written ({error.strerror}); choose another folder with "
            "log_dir="
        ) from error
