"""Runs the cells of a sweep one after the other, each as a run of the harness of its own."""

from __future__ import annotations

import gc
import json
import logging
import traceback
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from lm_eval import simple_evaluate
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

from relaygen_lmeval.errors import RelayGenError, SweepError
from relaygen_lmeval.models.assembly import shared_pairs
from relaygen_lmeval.relay import parse_options
from relaygen_lmeval.sweep.plan import CELL, Cell, Plan

log = logging.getLogger(__name__)

State = Literal["waiting", "running", "done", "failed"]
RECORD = "cell.json"
OUTPUT = "output.log"
_SEED = 1234  # the harness's own default


@dataclass(frozen=True)
class Outcome:
    """How a cell ended.

    Attributes:
        state: `done` or `failed`.
        seconds: What it took.
        message: Why it failed.
    """

    state: State
    seconds: float = 0.0
    message: str = ""


OnChange = Callable[[Cell, Outcome], None]


def check(plan: Plan) -> dict[str, int]:
    """See that every cell can be run, before any is.

    Returns:
        The requests of each cell, by its name.

    Raises:
        SweepError: A task that does not exist, or options that are wrong; names the cell.
    """
    tasks = TaskManager()
    counts: dict[tuple[str, ...], int] = {}
    out = {}
    for cell in plan.cells:
        try:
            parse_options(cell.model_args)
            if cell.tasks not in counts:
                counts[cell.tasks] = _n_requests(tasks, cell.tasks, plan.harness)
        except RelayGenError as error:
            raise SweepError(f"cell '{cell.name}': {error}") from error
        out[cell.name] = counts[cell.tasks]
    return out


def run_cells(plan: Plan, folder: Path, on_change: OnChange) -> dict[str, Outcome]:
    """Run what is not finished; a cell that fails is recorded, and the rest goes on.

    Args:
        plan: What to run.
        folder: Every cell gets a folder in it, with its results, samples, journal and output.
        on_change: Hears of each cell as it begins and ends.
    """
    outcomes: dict[str, Outcome] = {}
    manager = TaskManager()
    with shared_pairs():
        for cell in plan.cells:
            outcome = finished(cell, plan, folder)
            if outcome is None:
                on_change(cell, Outcome("running"))
                outcome = _attempt(cell, plan, folder / cell.name, manager)
                gc.collect()  # the caches of the last cell's engines
            outcomes[cell.name] = outcome
            on_change(cell, outcome)
    return outcomes


def finished(cell: Cell, plan: Plan, folder: Path) -> Outcome | None:
    """How a cell ended in an earlier start, if it was finished.

    Raises:
        SweepError: The folder holds a cell of this name with other settings.
    """
    try:
        record = json.loads((folder / cell.name / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if record.get("asked") != _asked(cell, plan):
        raise SweepError(
            f"{folder / cell.name} holds a cell of the same name with other settings; take another "
            "--output, or remove that folder"
        )
    outcome = Outcome(**record["outcome"])
    return outcome if outcome.state == "done" else None


def _attempt(cell: Cell, plan: Plan, folder: Path, manager: TaskManager) -> Outcome:
    folder.mkdir(parents=True, exist_ok=True)
    began = perf_counter()
    with (folder / OUTPUT).open("a", encoding="utf-8") as output:
        try:
            with redirect_stdout(output), redirect_stderr(output):
                _run(cell, plan, folder, manager)
            outcome = Outcome("done", perf_counter() - began)
        except Exception as error:  # noqa: BLE001  whatever it is, the other cells go on
            traceback.print_exc(file=output)
            said = str(error) if isinstance(error, RelayGenError) else repr(error)
            outcome = Outcome("failed", perf_counter() - began, said)
    record = {"asked": _asked(cell, plan), "outcome": asdict(outcome)}
    (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return outcome


def _run(cell: Cell, plan: Plan, folder: Path, manager: TaskManager) -> None:
    """What `lm_eval --model relaygen ... --log_samples --output_path` does."""
    tracker = EvaluationTracker(output_path=str(folder / "results.json"))
    results = simple_evaluate(
        model="relaygen",
        model_args={**_with_folders(cell, folder.parent), "log_dir": str(folder), "resume": "auto"},
        tasks=list(cell.tasks),
        gen_kwargs=dict(cell.gen_kwargs) or None,
        task_manager=manager,
        evaluation_tracker=tracker,
        log_samples=True,
        torch_random_seed=int(cell.model_args.get("seed", _SEED)),
        **plan.harness,
    )
    assert results is not None
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for task in results["configs"]:
        tracker.save_results_samples(task_name=task, samples=samples[task])


def _with_folders(cell: Cell, folder: Path) -> dict[str, Any]:
    """The options, other cells' names replaced by where they lie."""
    return {
        name: str(folder / value.removeprefix(CELL)) if str(value).startswith(CELL) else value
        for name, value in cell.model_args.items()
    }


def _n_requests(manager: TaskManager, names: tuple[str, ...], harness: Mapping[str, Any]) -> int:
    try:
        tasks = manager.load(list(names))["tasks"]
    except (KeyError, ValueError) as error:
        raise SweepError(f"task {', '.join(names)}: {error.args[0]}") from error
    return sum(_of_task(task, harness.get("limit")) for task in tasks.values())


def _of_task(task: Any, limit: float | None) -> int:
    n = len(task.eval_docs)
    if limit is not None:  # below 1 it is a part of all, as the harness has it
        n = min(n, int(limit) if limit >= 1 else -int(-n * limit // 1))
    return n * int(task.get_config("repeats") or 1)


def _asked(cell: Cell, plan: Plan) -> dict[str, Any]:
    """The settings, as JSON gives them back."""
    asked: dict[str, Any] = json.loads(
        json.dumps({**cell.content(), "harness": dict(plan.harness)}, default=str)
    )
    return asked
