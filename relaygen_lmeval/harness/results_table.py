"""Puts the relay's rows into the harness's own results: its table and `results.json`.

The harness asks a model for texts alone and has no place for what they took. Its `evaluate` is
public and returns the results as a dictionary; around it the rows are added, when its model is a
relay. Tasks need not know of it, so every generative task has them, stock ones as well.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import lm_eval.evaluator

from relaygen_lmeval.report.rows import Row, rows_by_task

Record = Mapping[str, Any]
_FILTER = "none"  # what the harness calls a metric that no filter was asked for


def show_rows() -> None:
    """Add rows to the results of every further `evaluate` of a relay; once is enough."""
    original = lm_eval.evaluator.evaluate
    if hasattr(original, "relaygen_lmeval"):
        return

    @functools.wraps(original)
    def evaluate(*args: Any, **kwargs: Any) -> Any:
        lm: Any = kwargs.get("lm", args[0] if args else None)
        before = len(_records(lm))
        results = original(*args, **kwargs)
        if hasattr(lm, "merge_records"):
            lm.merge_records()
        records = _records(lm)[before:]
        if results is not None and records:
            add_rows(results, rows_by_task(records))
        return results

    evaluate.relaygen_lmeval = True  # type: ignore[attr-defined]
    lm_eval.evaluator.evaluate = evaluate


def add_rows(results: MutableMapping[str, Any], rows: Mapping[str, Mapping[str, Row]]) -> None:
    """Add rows to `results` as the harness writes metrics.

    Args:
        results: What `evaluate` returns; changed in place.
        rows: Task to row name to row; tasks that the results do not have are left out.
    """
    for task, by_name in rows.items():
        metrics = results["results"].get(task)
        if metrics is None:
            continue
        for name, row in by_name.items():
            metrics[f"{name},{_FILTER}"] = row.value
            metrics[f"{name}_stderr,{_FILTER}"] = "N/A" if row.stderr is None else row.stderr
        results.get("higher_is_better", {}).setdefault(task, {})["e2e_s"] = False


def _records(lm: Any) -> Sequence[Record]:
    """The records of a relay, a caching one too; of another model none."""
    records: Sequence[Record] = getattr(lm, "relay_records", ())
    return records
