"""`relaygen sweep`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console
from rich.live import Live

from relaygen_lmeval.errors import SweepError


def sweep(
    file: Annotated[
        Path, typer.Argument(help="A sweep file, .yaml; some lie in `relaygen path tasks`/sweeps")
    ],
    output: Annotated[
        Optional[Path],  # noqa: UP045  typer reads annotations on Python 3.10
        typer.Option(help="Folder of the cells; default: relaygen_logs/sweep-<name of the file>"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the cells and an estimate of the time, and stop")
    ] = False,
    probe: Annotated[
        int, typer.Option(help="With --dry-run: documents that are run for the estimate; 0: none")
    ] = 4,
    limit: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Documents of each task, instead of what the file says"),
    ] = None,
) -> None:
    """Run many settings over the same problems: one file, one command, models loaded once.

    Started again it skips what is finished. Then: relaygen report OUTPUT
    """
    os.environ.setdefault("TQDM_DISABLE", "1")  # the table shows the progress
    from relaygen_lmeval.sweep.plan import Plan, read_plan
    from relaygen_lmeval.sweep.run import check, run_cells
    from relaygen_lmeval.sweep.table import Board, clock, print_plan

    plan = read_plan(file)
    if limit is not None:
        plan = Plan(plan.cells, {**plan.harness, "limit": limit})
    folder = output or Path("relaygen_logs") / f"sweep-{file.stem}"
    console = Console()
    n_requests = check(plan)
    if dry_run:
        from relaygen_lmeval.sweep.probe import estimate_s

        print_plan(plan, n_requests, console)
        if probe:
            total_s = estimate_s(plan, n_requests, probe)
            console.print(f"about {clock(total_s)}, by the pace of {probe} documents a policy")
        return
    board = Board(plan, n_requests, folder)
    with Live(
        board, console=console, refresh_per_second=2, redirect_stdout=False, redirect_stderr=False
    ):
        outcomes = run_cells(plan, folder, board.change)
    failed = {name: outcome for name, outcome in outcomes.items() if outcome.state == "failed"}
    if failed:
        named = "; ".join(f"{name}: {outcome.message}" for name, outcome in failed.items())
        raise SweepError(f"{len(failed)} of {len(outcomes)} cells failed: {named}")
    console.print(f"results, samples and journals: {folder}; next: relaygen report {folder}")
