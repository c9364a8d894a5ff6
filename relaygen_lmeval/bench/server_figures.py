"""The figures of `relaygen bench servers`, from the turns that were timed, and their table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

OURS, PLAIN = "relaygen", "plain"


@dataclass(frozen=True, slots=True)
class Turned:
    """One turn of one client.

    Attributes:
        turn_s: From being asked to having the text, seconds.
        away_s: Of that, from the first byte sent to the last one received.
        sent_bytes: Body of its request.
        n_tokens: Tokens it gave.
    """

    turn_s: float
    away_s: float
    sent_bytes: int
    n_tokens: int


def figures_of(rounds: list[dict[str, tuple[float, list[Turned]]]]) -> dict[str, Any]:
    """Of both clients, over the measured rounds, and the ratio of their rates."""
    found: dict[str, Any] = {}
    for name in (OURS, PLAIN):
        turns = [one for r in rounds for one in r[name][1]]
        rates = [sum(one.n_tokens for one in r[name][1]) / r[name][0] for r in rounds]
        found[name] = {
            "tokens_per_s": _spread(rates),
            "turn_ms": _spread([1000 * one.turn_s for one in turns]),
            "client_ms": _spread([1000 * (one.turn_s - one.away_s) for one in turns]),
            "sent_bytes": median(one.sent_bytes for one in turns),
        }
    found["ratio"] = _spread(
        [_rate(r[OURS]) / _rate(r[PLAIN]) for r in rounds],
    )
    return found


def _rate(measured: tuple[float, list[Turned]]) -> float:
    wall_s, turns = measured
    return sum(one.n_tokens for one in turns) / wall_s


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": median(values), "min": min(values), "max": max(values)}


def server_table(report: dict[str, Any]) -> Table:
    """The figures for a terminal."""
    table = Table(title="median (least-most)", title_justify="left", box=SIMPLE_HEAD)
    for heading in (
        "text",
        "at once",
        "client",
        "tok/s",
        "turn ms",
        "client's ms",
        "bytes",
        "ratio",
    ):
        table.add_column(heading, justify="left" if heading == "client" else "right")
    for length, by_number in report["figures"].items():
        for n, figures in by_number.items():
            for name in (OURS, PLAIN):
                cells = _cells(figures, name)
                table.add_row(str(length), str(n), name, *cells)
    return table


def _cells(figures: dict[str, Any], name: str) -> list[str]:
    mine = figures[name]
    return [
        _range(mine["tokens_per_s"], 0),
        _range(mine["turn_ms"], 0),
        _range(mine["client_ms"], 2),
        f"{mine['sent_bytes']:.0f}",
        _range(figures["ratio"], 2) if name == OURS else "1",
    ]


def _range(spread: dict[str, float], digits: int) -> str:
    middle, least, most = (f"{spread[k]:.{digits}f}" for k in ("median", "min", "max"))
    return f"{middle} ({least}-{most})"
