"""Finds what earlier starts of a run have finished, so that a further one only does the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relaygen_lmeval.errors import JournalError
from relaygen_lmeval.journal.identity import PLACES, differences, identity
from relaygen_lmeval.journal.reading import files, read_journal
from relaygen_lmeval.journal.records import key, light

_N_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Earlier:
    """What the journals of a folder hold.

    Attributes:
        runs: Starts so far.
        finished: Requests by their `key`, without what is long.
    """

    runs: int = 0
    finished: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def count_runs(folder: Path) -> int:
    """How many starts the journals of a folder have seen, of however many processes."""
    headers = (record for path in files(folder) for record in read_journal(path))
    return max((_run(r) for r in headers if r.get("kind") == "header"), default=0)


def read_earlier(folder: Path, header: Mapping[str, Any]) -> Earlier:
    """Read all journals of a folder: those of one process and of several.

    Args:
        folder: The `log_dir`.
        header: Of the run that goes on.

    Raises:
        JournalError: One of them belongs to a run that could have written other texts.
    """
    runs, finished = 0, {}
    for path in files(folder):
        for record in read_journal(path):
            if record.get("kind") == "header":
                _check_same(record, header, path)
                runs = max(runs, _run(record))
            elif record.get("kind") == "request":
                finished[key(record)] = light(record)
    return Earlier(runs, finished)


def _run(header: Mapping[str, Any]) -> int:
    """Which start wrote it; a journal that somebody has edited counts as one."""
    run = header.get("run")
    return run if isinstance(run, int) else 1


def _check_same(theirs: Mapping[str, Any], mine: Mapping[str, Any], path: Path) -> None:
    if identity(theirs, but=PLACES) == identity(mine, but=PLACES):
        return
    found = differences(theirs, mine, but=PLACES)
    more = f"; and {len(found) - _N_SHOWN} more" if len(found) > _N_SHOWN else ""
    raise JournalError(
        f"resume: {path} is of another run ({'; '.join(found[:_N_SHOWN])}{more}): its texts may not "
        "be taken for this one's. Give the same models and options as then, or another log_dir="
    )
