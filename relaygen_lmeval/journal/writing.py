"""Writes a journal, so that whatever ends a run leaves whole lines."""

from __future__ import annotations

import json
import logging
import os
import weakref
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timezone
from io import FileIO
from pathlib import Path
from time import monotonic
from typing import Any

from relaygen_lmeval.core.types import RelayResult
from relaygen_lmeval.errors import JournalError
from relaygen_lmeval.journal.records import SCHEMA, Label, record_of

log = logging.getLogger(__name__)

FILE = "journal.jsonl"
_SYNC_S = 5.0  # a power cut loses so much; a crash of the process the line in flight alone


class Journal:
    """Writes one run, behind what earlier ones have left in the same file.

    Args:
        folder: Made if it is missing.
        header: Whatever identifies the run: options, versions, models.
        rank: Process of a run over many; each writes a file of its own.
        run: Which start of the run this is, from 1.

    Raises:
        JournalError: A folder that cannot be made or written.
    """

    def __init__(
        self, folder: Path, header: Mapping[str, Any], *, rank: int | None = None, run: int = 1
    ) -> None:
        self.path = folder / (FILE if rank is None else f"journal.rank{rank}.jsonl")
        self.run = run
        self._file = _open(self.path)
        weakref.finalize(self, self._file.close)  # the harness drops a model without a word
        self._origin_s: float | None = None
        self._synced_s = monotonic()
        self._end = _mended(self._file, self.path)
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._write({"kind": "header", "schema": SCHEMA, "run": run, "time": now, **header})

    def write(self, result: RelayResult, label: Label) -> dict[str, Any]:
        """Append one finished request; returns its record."""
        if self._origin_s is None:
            self._origin_s = result.started_s
        record = record_of(result, label, origin_s=self._origin_s, run=self.run)
        self._write(record)
        return record

    def write_failure(self, message: str, label: Label | None = None) -> None:
        """Append why the run, or the one request of `label`, has no result."""
        named = asdict(label) if label else {}
        self._write({"kind": "failure", "run": self.run, **named, "message": message})

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, record: Mapping[str, Any]) -> None:
        line = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        try:
            self._append(line)
        except OSError as error:
            self._drop_half_a_line()
            raise JournalError(
                f"journal {self.path} cannot be written ({error.strerror}); what it holds so far "
                f"is kept. Free some space and go on with resume={self.path.parent}"
            ) from error

    def _append(self, line: bytes) -> None:
        """No buffer: what is written is out of this process."""
        rest = memoryview(line)
        while rest:  # a disk that is nearly full takes a part
            rest = rest[self._file.write(rest) :]
        self._end += len(line)
        if monotonic() - self._synced_s > _SYNC_S:
            os.fsync(self._file.fileno())  # a network file system tells of a full disk here
            self._synced_s = monotonic()

    def _drop_half_a_line(self) -> None:
        try:
            self._file.truncate(self._end)
        except OSError:
            log.warning("%s ends with half a line, which is left out when it is read", self.path)


def check_writable(folder: Path) -> None:
    """Make the folder of a journal and see that a file can be made in it.

    Raises:
        JournalError: It cannot.
    """
    probe = folder / f".writable-{os.getpid()}"
    _open(probe).close()
    probe.unlink()


def _mended(file: FileIO, path: Path) -> int:
    """Make the file end with a whole line, whatever a crash has left; gives its length."""
    end, line = 0, b"\n"
    if path.is_file():  # and no device
        with path.open("rb") as reader:
            for line in reader:
                end += len(line)
    if line.endswith(b"\n"):
        return end
    log.warning("%s: its last line is torn (%d bytes) and dropped", path, len(line))
    file.truncate(end - len(line))
    return end - len(line)


def _open(path: Path) -> FileIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return FileIO(path, "a")
    except OSError as error:
        raise JournalError(
            f"log_dir={path.parent} cannot be written ({error.strerror}); choose another folder with "
            "log_dir="
        ) from error
