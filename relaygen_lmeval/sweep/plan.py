"""A sweep file becomes cells: what is run, each with a name of its own. Loads no model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import yaml

from relaygen_lmeval.errors import SweepError

_KEYS = ("tasks", "model_args", "gen_kwargs", "harness", "grid", "cells")
# Arguments of the harness's `simple_evaluate` that may differ between sweeps.
HARNESS = (
    "apply_chat_template",
    "fewshot_as_multiturn",
    "limit",
    "num_fewshot",
    "samples",
    "system_instruction",
)
_GEN = "gen_kwargs."
_OWN = ("log_dir", "resume")  # every cell has a journal of its own
CELL = "cell:"  # a value that names another cell, for its folder

Setting = tuple[str, Any]


@dataclass(frozen=True)
class Cell:
    """One run of the harness.

    Attributes:
        name: Of its folder: the settings in which it differs from other cells.
        tasks: Of the harness.
        model_args: As in `--model_args`.
        gen_kwargs: As in `--gen_kwargs`.
    """

    name: str
    tasks: tuple[str, ...]
    model_args: Mapping[str, Any] = field(default_factory=dict)
    gen_kwargs: Mapping[str, Any] = field(default_factory=dict)

    def content(self) -> dict[str, Any]:
        """All but the name, ready for JSON."""
        return {
            "tasks": list(self.tasks),
            "model_args": dict(self.model_args),
            "gen_kwargs": dict(self.gen_kwargs),
        }


@dataclass(frozen=True)
class Plan:
    """A sweep.

    Attributes:
        cells: In the order in which they are run.
        harness: Arguments of every run: `limit`, `apply_chat_template` and the like.
    """

    cells: tuple[Cell, ...]
    harness: Mapping[str, Any]


def read_plan(path: Path) -> Plan:
    """Read a sweep file.

    Raises:
        SweepError: It is not there, or says something that cannot be; names the place.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SweepError(f"sweep file {path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SweepError(f"sweep file {path} is no YAML: {error}") from error
    try:
        return _plan(content)
    except SweepError as error:
        raise SweepError(f"sweep file {path}: {error}") from error


def _plan(content: object) -> Plan:
    top = _mapping("the file", content)
    _known("key", top, _KEYS)
    harness = _mapping("harness", top.get("harness", {}))
    _known("argument in harness:", harness, HARNESS)
    common = [
        *_mapping("model_args", top.get("model_args", {})).items(),
        *((_GEN + n, v) for n, v in _mapping("gen_kwargs", top.get("gen_kwargs", {})).items()),
        *((("tasks", top["tasks"]),) if "tasks" in top else ()),
    ]
    cells = [_cell(common, listed, point) for listed, point in product(_listed(top), _points(top))]
    _check_names(cells)
    return Plan(tuple(cells), harness)


class _Listed(NamedTuple):
    """A cell that is written out."""

    name: str
    settings: list[Setting]


def _listed(top: Mapping[str, Any]) -> list[_Listed]:
    if "cells" not in top:
        return [_Listed("", [])]
    cells = top["cells"]
    if not isinstance(cells, list) or not cells:
        _refuse(f"cells: {cells!r} has to be a list of at least one mapping of settings")
    given = [dict(_mapping(f"cells[{n}]", cell)) for n, cell in enumerate(cells)]
    return [_Listed(str(cell.pop("name", "")), list(cell.items())) for cell in given]


def _points(top: Mapping[str, Any]) -> list[tuple[Setting, ...]]:
    """Every combination of the grid's values."""
    if "grid" not in top:
        if "cells" not in top:
            _refuse("it has neither grid: nor cells:, so there is nothing to sweep over")
        return [()]
    axes = _mapping("grid", top["grid"])
    if not axes:
        _refuse("grid: is empty; give it at least one setting with a list of values")
    for name, values in axes.items():
        if not isinstance(values, list) or not values:
            _refuse(f"grid: {name}: {values!r} has to be a list of at least one value")
    return list(product(*([(name, value) for value in axes[name]] for name in axes)))


def _cell(common: Sequence[Setting], listed: _Listed, point: Sequence[Setting]) -> Cell:
    twice = {name for name, _ in listed.settings} & {name for name, _ in point}
    if twice:
        _refuse(f"{', '.join(sorted(twice))} stands in cells: and in grid:; keep it in one")
    model_args: dict[str, Any] = {}
    gen_kwargs: dict[str, Any] = {}
    tasks: object = None
    for setting, value in (*common, *listed.settings, *point):
        if setting == "tasks":
            tasks = value
        elif setting.startswith(_GEN):
            gen_kwargs[setting.removeprefix(_GEN)] = value
        elif setting in _OWN:
            _refuse(f"{setting} is every cell's own; leave it out")
        elif isinstance(value, str) and value.startswith(CELL):
            model_args[setting] = CELL + _name([value.removeprefix(CELL)], point)
        else:
            model_args[setting] = value
    own = [listed.name] if listed.name else [f"{n}={_short(v)}" for n, v in listed.settings]
    return Cell(_name(own, point), _tasks(tasks), model_args, gen_kwargs)


def _name(own: Sequence[str], point: Sequence[Setting]) -> str:
    """What the cell is called, and its place in the grid."""
    return folder_name(",".join([*own, *(f"{n}={_short(v)}" for n, v in point)]))


def folder_name(text: str) -> str:
    """A text as the name of a folder: no separators, nothing hidden, not too long.

    Examples:
        >>> folder_name("policy=relay,cues=../a b")
        'policy=relay,cues=.._a_b'
    """
    return re.sub(r"[^\w.=,+-]+", "_", text).lstrip(".-")[:120] or "cell"


def _tasks(value: object) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        _refuse(f"tasks: {value!r} has to be a task of the harness, or a list of some")
    return tuple(name.strip() for name in names)


def _check_names(cells: Iterable[Cell]) -> None:
    """No cell twice, no two of one name, and none that needs what comes after it."""
    names: set[str] = set()
    contents: dict[str, str] = {}
    for cell in cells:
        content = json.dumps(cell.content(), sort_keys=True, default=str)
        if content in contents:
            _refuse(f"cells '{contents[content]}' and '{cell.name}' are the same; remove one")
        if cell.name in names:
            _refuse(f"two cells are called '{cell.name}'; give each a name: of its own")
        for value in cell.model_args.values():
            other = str(value).removeprefix(CELL)
            if str(value).startswith(CELL) and other not in names:
                _refuse(f"cell '{cell.name}': no cell before it is called '{other}'")
        names.add(cell.name)
        contents[content] = cell.name


def _short(value: object) -> str:
    """Of a path, its last part."""
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return text.rsplit("/", 1)[-1] if "/" in text else text


def _mapping(what: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        _refuse(f"{what}: {value!r} has to be names with values")
    return value


def _known(what: str, given: Iterable[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else "."
            _refuse(f"unknown {what} '{name}'{hint} Known: {', '.join(known)}")


def _refuse(message: str) -> NoReturn:
    raise SweepError(message)
