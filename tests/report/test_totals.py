"""Totals against a computation by hand, and what a terminal shows of them."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from relaygen_lmeval.report.totals import totals, totals_by_task, totals_table


def record(task: str = "t", **fields: Any) -> dict[str, Any]:
    return {
        "kind": "request",
        "task": task,
        "started_s": 0.0,
        "e2e_s": 1.0,
        "ttft_s": 0.1,
        "n_tokens": 100,
        "n_large_tokens": 60,
        "handoffs": 4,
        "flags": [],
        "segments": [],
        **fields,
    }


def test_totals_of_two_requests():
    values = totals(
        [
            record(started_s=0.0, e2e_s=1.0),
            record(
                started_s=0.5,
                e2e_s=3.0,
                n_tokens=300,
                n_large_tokens=100,
                flags=["reasoning_closed", "truncated"],
            ),
        ]
    )

    assert values["n"] == 2
    assert values["e2e_mean_s"] == 2.0
    assert values["e2e_p50_s"] == 2.0
    assert values["e2e_p95_s"] == pytest.approx(2.9)
    assert values["wall_s"] == 3.5
    assert values["tokens_per_s"] == pytest.approx(400 / 3.5)
    assert values["share"] == 0.4
    assert values["handoffs_per_1000"] == 20.0
    assert (values["reasoning_closed"], values["truncated"], values["unfinished"]) == (1, 1, 1)


def test_drafts_are_added_up_over_all_requests():
    drafts = {"drafted": 6, "accepted": 4, "verified": 2}

    values = totals([record(drafts=drafts), record(drafts=None), record(drafts=drafts)])

    assert (values["drafted"], values["accepted"], values["mean_accepted"]) == (12, 8, 3.0)
    assert totals([record()])["mean_accepted"] == 1.0


def test_tasks_are_kept_apart_and_the_header_is_none():
    by_task = totals_by_task([{"kind": "header"}, record("a"), record("b"), record("a")])

    assert {task: values["n"] for task, values in by_task.items()} == {"a": 2, "b": 1}


def test_a_request_without_tokens_has_no_share():
    assert totals([record(n_tokens=0, n_large_tokens=0)])["share"] == 0.0


def test_the_table_fits_a_terminal():
    shown = StringIO()
    Console(file=shown, width=80).print(
        totals_table(totals_by_task([record("relaygen_arithmetic")]), "title")
    )

    assert "relaygen_arithmetic" in shown.getvalue()
    assert "…" not in shown.getvalue()
