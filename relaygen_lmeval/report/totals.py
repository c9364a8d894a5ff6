"""Totals of a run, from the records of its journal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

Record = Mapping[str, Any]

# The table's columns; results.json has all of `totals`.
COLUMNS = {
    "n": "n",
    "e2e_mean_s": "E2E s",
    "e2e_p50_s": "p50",
    "e2e_p95_s": "p95",
    "tokens_per_s": "tok/s",
    "share": "share",
    "handoffs_per_1000": "h/1000",
    "unfinished": "cut",
}


def totals_by_task(records: Iterable[Record]) -> dict[str, dict[str, float]]:
    """Group request records by task and total each group; see `totals`."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record["kind"] == "request":
            groups[record["task"]].append(record)
    return {task: totals(group) for task, group in groups.items()}


def totals(records: Sequence[Record]) -> dict[str, float]:
    """Totals of at least one request.

    Returns:
        `n`; end-to-end and first-token times in seconds; `tokens_per_s`: all generated tokens
        over `wall_s`, the time from the first request's start to the last one's end, of a
        run that was resumed the sum over its starts; `tokens_mean`;
        `share`: the large model's part of the generated tokens; `handoffs_per_1000` tokens;
        `reasoning_closed` and `truncated`: how many reasonings and answers their budget cut;
        `unfinished`: either; `drafted`, `accepted`: tokens of speculation; `mean_accepted`:
        tokens that a verifying forward gave, its own included, 1 where nothing was drafted.
    """
    e2e_s = np.array([r["e2e_s"] for r in records])
    n_tokens = sum(r["n_tokens"] for r in records)
    wall_s = sum(start["wall_s"] for start in runs(records))
    return {
        "n": len(records),
        "e2e_mean_s": float(e2e_s.mean()),
        "e2e_p50_s": float(np.percentile(e2e_s, 50)),
        "e2e_p95_s": float(np.percentile(e2e_s, 95)),
        "ttft_mean_s": float(np.mean([r["ttft_s"] for r in records])),
        "tokens_per_s": n_tokens / wall_s if wall_s else 0.0,
        "tokens_mean": n_tokens / len(records),
        "share": sum(r["n_large_tokens"] for r in records) / n_tokens if n_tokens else 0.0,
        "handoffs_per_1000": _per_1000(sum(r["handoffs"] for r in records), n_tokens),
        "reasoning_closed": sum("reasoning_closed" in r["flags"] for r in records),
        "truncated": sum("truncated" in r["flags"] for r in records),
        "unfinished": sum(bool(r["flags"]) for r in records),
        "wall_s": wall_s,
        **_speculation(records),
    }


def runs(records: Iterable[Record]) -> list[dict[str, float]]:
    """What each start of a run did, where it was ended and resumed.

    Returns:
        In their order: `run`, from 1; `n` requests; `wall_s`, from the first one's start to the
        last one's end.
    """
    by_run: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        by_run[record.get("run", 1)].append(record)
    return [{"run": run, "n": len(of), "wall_s": _wall_s(of)} for run, of in sorted(by_run.items())]


def _wall_s(records: Sequence[Record]) -> float:
    begin_s = min(r["started_s"] for r in records)
    return float(max(r["started_s"] + r["e2e_s"] for r in records) - begin_s)


def _speculation(records: Sequence[Record]) -> dict[str, float]:
    drafts = [r["drafts"] for r in records if r.get("drafts")]
    accepted = sum(d["accepted"] for d in drafts)
    verified = sum(d["verified"] for d in drafts)
    return {
        "drafted": sum(d["drafted"] for d in drafts),
        "accepted": accepted,
        "mean_accepted": 1 + accepted / verified if verified else 1.0,
    }


def totals_table(by_task: Mapping[str, Mapping[str, float]], title: str) -> Table:
    """The totals for a terminal."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("task", overflow="fold")
    for heading in COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for task, values in by_task.items():
        table.add_row(task or "-", *(_cell(values[name]) for name in COLUMNS))
    return table


def _per_1000(count: int, n_tokens: int) -> float:
    return 1000 * count / n_tokens if n_tokens else 0.0


def _cell(value: float) -> str:
    return (
        str(value) if isinstance(value, int) else f"{value:.3f}" if value < 10 else f"{value:.1f}"
    )
