"""The append-only record of a run: what was asked, who wrote what, and how long it took.

`journal.jsonl` holds one JSON object a line: a header where a run begins or goes on, then one line a
request as it ends. Every field and its unit: `relaygen_lmeval/JOURNAL.md`.
"""

from relaygen_lmeval.journal.reading import PATTERN, files, read_journal
from relaygen_lmeval.journal.records import SCHEMA, Label, asked, key, record_of
from relaygen_lmeval.journal.writing import FILE, Journal, check_writable

__all__ = [
    "FILE",
    "PATTERN",
    "SCHEMA",
    "Journal",
    "Label",
    "asked",
    "check_writable",
    "files",
    "key",
    "read_journal",
    "record_of",
]
