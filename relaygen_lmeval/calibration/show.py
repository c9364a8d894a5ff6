"""`relaygen cues`: cue files for a reader."""

from __future__ import annotations

from collections.abc import Mapping

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from relaygen_lmeval.cuefile import CueFile, find_cue_file, list_cue_files, read_cue_file


def files_table() -> Table:
    """The shipped files, one a line; `show` names the models of each."""
    table = _table()
    table.add_column("name", no_wrap=True)
    table.add_column("match", no_wrap=True)
    table.add_column("cues", justify="right", no_wrap=True)
    for path in list_cue_files():
        file = read_cue_file(path)
        table.add_row(path.stem, file.match, str(len(file.cues)))
    return table


def print_cue_file(name: str, console: Console) -> None:
    """Print a file's cues, provenance and statistics."""
    file = read_cue_file(find_cue_file(name))
    console.print(f"{file.name}: {file.large} and {file.small}, match {file.match}", style="bold")
    console.print(", ".join(map(repr, file.cues)), markup=False, highlight=False)
    console.print(_facts(file.source))
    if file.statistics:
        console.print(_statistics(file))


def print_difference(a: str, b: str, console: Console) -> None:
    """Print which cues only one of two files has, and the margins each measured."""
    files = [read_cue_file(find_cue_file(name)) for name in (a, b)]
    table = _table()
    table.add_column("cue")
    for file in files:
        table.add_column(file.name)
        table.add_column("margin", justify="right")
    names = sorted({cue for file in files for cue in file.cues})
    for cue in names:
        cells = [cell for file in files for cell in (_has(file, cue), _margin(file, cue))]
        table.add_row(shown(cue), *cells, style=_style(files, cue))
    console.print(table)
    n_both = sum(all(cue in file.cues for file in files) for cue in names)
    console.print(f"{n_both} of {len(names)} cues are in both.", highlight=False)
    for name in ("match", "boundaries"):
        values = [getattr(file, name) for file in files]
        if values[0] != values[1]:
            console.print(f"{name}: {values[0]} against {values[1]}")


def _table() -> Table:
    return Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))


def _facts(source: Mapping[str, object]) -> Table:
    table = Table(show_header=False, box=None)
    table.add_column(style="dim")
    table.add_column()
    for name, value in source.items():
        if isinstance(value, dict):
            value = ", ".join(f"{k} {v}" for k, v in value.items())
        elif isinstance(value, list):
            value = ", ".join(map(str, value))
        table.add_row(name, str(value))
    return table


def _statistics(file: CueFile) -> Table:
    table = _table()
    table.add_column("candidate", no_wrap=True)
    for name in ("n", "traces", "mean", "difference"):
        table.add_column(name, justify="right")
    table.add_column("selected")
    table.add_column("reason")
    for cue, s in file.statistics.items():
        if s.get("occurrences"):
            numbers = [_number(s.get(name)) for name in ("mean_margin", "difference")]
            table.add_row(
                shown(cue),
                str(s["occurrences"]),
                str(s.get("traces", "-")),
                *numbers,
                "yes" if s.get("selected") else "no",
                str(s.get("reason", "")),
            )
    return table


def _has(file: CueFile, cue: str) -> str:
    return "yes" if cue in file.cues else "-"


def _margin(file: CueFile, cue: str) -> str:
    return _number(file.statistics.get(cue, {}).get("mean_margin"))


def _number(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else "-"


def shown(cue: str) -> str:
    """A cue as it is, in quotes where blanks at its ends would not be seen."""
    return cue if cue.strip() == cue else repr(cue)


def _style(files: list[CueFile], cue: str) -> str | None:
    return None if all(cue in file.cues for file in files) else "bold"
