"""What a sweep shows of itself while it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from relaygen_lmeval.journal import FILE
from relaygen_lmeval.sweep.plan import Cell, Plan
from relaygen_lmeval.sweep.run import Outcome

_STYLE = {"waiting": "dim", "running": "bold", "done": "green", "failed": "red"}


@dataclass
class Tail:
    """Reads a journal as it grows.

    Attributes:
        path: The file; it need not be there yet.
        n_requests: Finished ones so far.
        n_tokens: Their tokens.
    """

    path: Path
    n_requests: int = 0
    n_tokens: int = 0
    _position: int = 0

    def read(self) -> None:
        """Take in the lines that are complete."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._position += len(line)
                record = json.loads(line)
                if record["kind"] == "request":
                    self.n_requests += 1
                    self.n_tokens += record["n_tokens"]


@dataclass
class Board:
    """The cells with their progress; rich draws it anew several times a second.

    Args:
        plan: The cells.
        n_requests: Of each cell.
        folder: Where their journals are.
    """

    plan: Plan
    n_requests: Mapping[str, int]
    folder: Path
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    began_s: float = 0.0
    _tails: dict[str, Tail] = field(default_factory=dict)
    _took: dict[str, tuple[int, float]] = field(default_factory=dict)  # requests, seconds

    def change(self, cell: Cell, outcome: Outcome) -> None:
        """A cell begins or ends."""
        if outcome.state == "running":
            self.began_s = perf_counter()
        elif self.outcomes.get(cell.name, Outcome("waiting")).state == "running":
            self._took[cell.name] = (self.n_requests[cell.name], outcome.seconds)
        tail = self._tails.setdefault(cell.name, Tail(self.folder / cell.name / FILE))
        tail.read()
        self.outcomes[cell.name] = outcome

    def left_s(self) -> float | None:
        """Time left by the pace so far, seconds; `None` before there is one."""
        n_done = sum(n for n, _ in self._took.values())
        spent_s = sum(seconds for _, seconds in self._took.values())
        for name, outcome in self.outcomes.items():
            if outcome.state == "running":
                n_done += self._tails[name].n_requests
                spent_s += perf_counter() - self.began_s
        return self._n_left() * spent_s / n_done if n_done else None

    def __rich__(self) -> Table:
        """The table."""
        for name, outcome in self.outcomes.items():
            if outcome.state == "running":
                self._tails[name].read()
        left_s = self.left_s()
        n_ended = sum(o.state in ("done", "failed") for o in self.outcomes.values())
        title = f"{n_ended} of {len(self.plan.cells)} cells"
        if left_s is not None and self._n_left():
            title += f", about {clock(left_s)} left"
        table = Table("cell", "state", "requests", "tok/s", "time", box=SIMPLE_HEAD, title=title)
        for name in ("requests", "tok/s", "time"):
            table.columns[[c.header for c in table.columns].index(name)].justify = "right"
        for cell in self.plan.cells:
            table.add_row(*self._row(cell))
        return table

    def _n_left(self) -> int:
        left = 0
        for cell in self.plan.cells:
            state = self.outcomes.get(cell.name, Outcome("waiting")).state
            if state == "waiting":
                left += self.n_requests[cell.name]
            elif state == "running":
                left += self.n_requests[cell.name] - self._tails[cell.name].n_requests
        return left

    def _row(self, cell: Cell) -> tuple[str, ...]:
        outcome = self.outcomes.get(cell.name, Outcome("waiting"))
        n, tail = self.n_requests[cell.name], self._tails.get(cell.name)
        n_done = n if outcome.state == "done" else tail.n_requests if tail else 0
        seconds = perf_counter() - self.began_s if outcome.state == "running" else outcome.seconds
        speed = f"{tail.n_tokens / seconds:,.0f}" if tail and seconds and tail.n_tokens else ""
        style = _STYLE[outcome.state]
        state = f"[{style}]{outcome.state}[/{style}]"
        return cell.name, state, f"{n_done}/{n}", speed, clock(seconds) if seconds else ""


def clock(seconds: float) -> str:
    """Hours, minutes and seconds as people read them.

    Examples:
        >>> clock(75), clock(7500)
        ('1:15', '2:05:00')
    """
    minutes, s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{s:02}" if hours else f"{minutes}:{s:02}"


def print_plan(plan: Plan, n_requests: Mapping[str, int], console: Console) -> None:
    """The cells, what they run, and how many requests that is."""
    table = Table("cell", "tasks", "requests", box=SIMPLE_HEAD)
    table.columns[2].justify = "right"
    for cell in plan.cells:
        table.add_row(cell.name, ", ".join(cell.tasks), str(n_requests[cell.name]))
    console.print(table)
    console.print(f"{len(plan.cells)} cells, {sum(n_requests.values())} requests", highlight=False)
