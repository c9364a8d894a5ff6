"""How long a sweep will take, from a few requests of every policy it has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from relaygen_lmeval.errors import SweepError
from relaygen_lmeval.journal import FILE, read_journal
from relaygen_lmeval.sweep.plan import CELL, Cell, Plan
from relaygen_lmeval.sweep.run import Outcome, run_cells


def estimate_s(plan: Plan, n_requests: Mapping[str, int], n_probed: int) -> float:
    """Time of the whole sweep, seconds, were all requests as long as the first ones.

    Cells that differ in seeds and generation settings alone are taken for equally fast, so one
    of them is tried.

    Args:
        plan: The sweep.
        n_requests: Of each cell.
        n_probed: Documents of each task that are tried.

    Raises:
        SweepError: A cell that fails already here.
    """
    alike: dict[str, list[Cell]] = {}
    for cell in plan.cells:
        alike.setdefault(_pace(cell), []).append(cell)
    tried = Plan(tuple(cells[0] for cells in alike.values()), {**plan.harness, "limit": n_probed})
    with TemporaryDirectory() as folder:
        outcomes = run_cells(tried, Path(folder), lambda cell, outcome: None)
        return sum(
            _scaled_s(cells, outcomes[cells[0].name], Path(folder), n_requests)
            for cells in alike.values()
        )


def _scaled_s(
    cells: list[Cell], outcome: Outcome, folder: Path, n_requests: Mapping[str, int]
) -> float:
    """Time of cells that are alike: what surrounds a run is spent once each, the rest scales."""
    if outcome.state == "failed":
        raise SweepError(f"cell '{cells[0].name}' fails: {outcome.message}")
    records = read_journal(folder / cells[0].name / FILE)
    ends_s = [r["started_s"] + r["e2e_s"] for r in records if r["kind"] == "request"]
    around_s = max(0.0, outcome.seconds - max(ends_s, default=0.0))
    per_request_s = max(ends_s, default=0.0) / max(1, len(ends_s))
    return sum(around_s + per_request_s * n_requests[cell.name] for cell in cells)


def _pace(cell: Cell) -> str:
    """What decides how fast a cell is."""
    options = {
        name: CELL if str(value).startswith(CELL) else value
        for name, value in cell.model_args.items()
        if name != "seed"
    }
    return json.dumps(replace(cell, model_args=options, gen_kwargs={}).content(), default=str)
