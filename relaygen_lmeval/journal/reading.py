"""Reads journals, those that a crash left as well."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from relaygen_lmeval.errors import JournalError

log = logging.getLogger(__name__)

PATTERN = "journal.*jsonl"  # journal.jsonl, and journal.rank0.jsonl


def files(folder: Path) -> list[Path]:
    """The journals of a folder: that of one process, those of several, or both."""
    return sorted(folder.glob(PATTERN))


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Read the records of a journal, one after the other; a line that a crash tore is left out.

    Raises:
        JournalError: A file that is not there, or whose first line is no header.
    """
    # Not `splitlines`: a text may hold separators of lines that are no newline.
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file):
                record = _parse(line)
                if number == 0 and (record is None or record.get("kind") != "header"):
                    raise JournalError(f"{path} is no journal: its first line must be a header")
                if record is None:
                    log.warning("%s: line %d is torn and left out", path, number + 1)
                else:
                    yield record
    except OSError as error:
        raise JournalError(f"journal {path} cannot be read: {error.strerror}") from error


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:  # of UTF-8 or of JSON
        return None
    return record if isinstance(record, dict) else None
