r"""Read and write the cue files of `cues/`: which cues a pair of models has, and where from.

It knows the schema and says exactly what is wrong with a file; it does not know what a match is
(`core.cues` does) or how cues are found (`calibrate` does).

```json
{
  "schema": 1, "name": "demo", "large": "demo/large", "small": "demo/small",
  "match": "word", "boundaries": "unicode", "cues": ["So,", "Thus"],
  "statistics": {"So,": {"occurrences": 120, "mean_margin": 0.93, "selected": true}},
  "source": {"rule": "ci", "seed": 0}
}
```

Every field: `relaygen_lmeval/CUES.md`.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, get_args

from relaygen_lmeval.core.cues import CueTable, MatchRule
from relaygen_lmeval.errors import CueFileError

SCHEMA = 1

# How the end of a sentence is found; `core.boundaries` knows one way.
BOUNDARIES = ("unicode",)

_TEXT_FIELDS = ("name", "large", "small")
_REQUIRED = ("schema", *_TEXT_FIELDS, "match", "cues")
_FIELDS = (*_REQUIRED, "boundaries", "statistics", "source")


@dataclass(frozen=True)
class CueFile:
    """The cues of one pair of models, with their provenance.

    Attributes:
        name: What the table is called in reports.
        large: Model id of the large model it was found for.
        small: Model id of the small model.
        match: The rule by which the cues match, see `CueTable`.
        cues: The cues, none twice.
        statistics: What was measured for each candidate; may be empty.
        source: Where the cues come from: a paper's table, or a calibration with its models,
            task, sampling and seeds.
        boundaries: The rule by which sentences end.
    """

    name: str
    large: str
    small: str
    match: MatchRule
    cues: tuple[str, ...]
    statistics: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    source: Mapping[str, object] = field(default_factory=dict)
    boundaries: str = BOUNDARIES[0]

    def table(self) -> CueTable:
        """Give what the relay matches with."""
        return CueTable(self.cues, self.match)

    @property
    def sha256(self) -> str:
        """The hash of the content, whatever the layout of the file it was read from."""
        return hashlib.sha256(_encode(self)).hexdigest()


def read_cue_file(path: str | Path) -> CueFile:
    """Read a cue file and check all of it.

    Args:
        path: The file; `find_cue_file` turns a shipped name into one.

    Returns:
        Its content.

    Raises:
        CueFileError: If it cannot be read or does not follow the schema; the message names the
            file, what was found, what was wanted and what to do.
    """
    path = Path(path)
    content = _read_object(path)
    _check_fields(path, content)
    return CueFile(
        **{name: _text(path, name, content[name]) for name in _TEXT_FIELDS},
        match=_match_rule(path, content["match"]),
        cues=_cues(path, content["cues"]),
        statistics=_statistics(path, content.get("statistics", {})),
        source=_object(path, "source", content.get("source", {})),
        boundaries=_boundaries(path, content.get("boundaries", BOUNDARIES[0])),
    )


def write_cue_file(cue_file: CueFile, path: str | Path) -> None:
    """Write a cue file; equal content gives the same bytes.

    Args:
        cue_file: The content.
        path: The file to make or replace; its folder must exist.
    """
    Path(path).write_bytes(_encode(cue_file))


def _encode(cue_file: CueFile) -> bytes:
    content = {"schema": SCHEMA, **{name: getattr(cue_file, name) for name in _FIELDS[1:]}}
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def _read_object(path: Path) -> dict[str, object]:
    try:
        content: object = json.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        _refuse(path, f"cannot be read ({error.strerror})", "a readable file", "check the path")
    except ValueError as error:  # not JSON, or not UTF-8
        _refuse(path, f"is not JSON ({error})", "one JSON object in UTF-8", "correct its syntax")
    if not isinstance(content, dict):
        _refuse(
            path,
            f"holds {_kind(content)}",
            "a JSON object",
            "put the list under 'cues', beside the other fields",
        )
    return content


def _check_fields(path: Path, content: Mapping[str, object]) -> None:
    schema = content.get("schema")
    if schema != SCHEMA or isinstance(schema, bool):
        todo = f"set 'schema' to {SCHEMA}, or update relaygen-lmeval if the file is a newer one"
        _refuse(path, f"has schema {schema!r}", f"schema {SCHEMA}", todo)
    for name in content:
        if name not in _FIELDS:
            nearest = difflib.get_close_matches(name, _FIELDS, n=1)
            todo = f"rename it to '{nearest[0]}'" if nearest else "put it into 'source'"
            _refuse(path, f"has the unknown field '{name}'", ", ".join(_FIELDS), todo)
    missing = [name for name in _REQUIRED if name not in content]
    if missing:
        _refuse(path, f"has no {_quoted(missing)}", ", ".join(_REQUIRED), "add what is missing")


def _text(path: Path, name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        _refuse(path, f"has {value!r} as '{name}'", "a text that is not empty", "fill it in")
    return value


def _match_rule(path: Path, value: object) -> MatchRule:
    for rule in get_args(MatchRule):
        if value == rule:
            return rule  # type: ignore[no-any-return]
    known = _quoted(get_args(MatchRule))
    _refuse(path, f"has the unknown match rule {value!r}", known, "choose one of these")


def _boundaries(path: Path, value: object) -> str:
    if value not in BOUNDARIES:
        known = _quoted(BOUNDARIES)
        _refuse(path, f"has the unknown boundaries {value!r}", known, "choose one of these")
    return str(value)


def _cues(path: Path, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        found = "an empty list" if value == [] else _kind(value)
        _refuse(path, f"has {found} as 'cues'", "a list of at least one text", "add a cue")
    cues: list[str] = []
    for position, cue in enumerate(value):
        if not isinstance(cue, str) or not cue.strip():
            found = f"has {cue!r} as cue {position}"
            _refuse(path, found, "a text that is not blank", "correct or remove it")
        if cue in cues:
            _refuse(path, f"has the cue {cue!r} twice", "each cue once", "remove one of the two")
        cues.append(cue)
    return tuple(cues)


def _statistics(path: Path, value: object) -> dict[str, Mapping[str, object]]:
    statistics = _object(path, "statistics", value)
    return {
        cue: _object(path, f"statistics of {cue!r}", numbers) for cue, numbers in statistics.items()
    }


def _object(path: Path, name: str, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        _refuse(path, f"has {_kind(value)} as {name}", "a JSON object", "use {} if there is none")
    return value


def _refuse(path: Path, found: str, wanted: str, todo: str) -> NoReturn:
    raise CueFileError(f"cue file {path} {found}; wanted: {wanted}; {todo}") from None


def _quoted(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _kind(value: object) -> str:
    kinds = {list: "a list", dict: "an object", str: "a text", bool: "a truth value"}
    return "null" if value is None else kinds.get(type(value), "a number")
