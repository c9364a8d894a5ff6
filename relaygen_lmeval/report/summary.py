"""Runs of the harness side by side, from their `results*.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from relaygen_lmeval.errors import RelayGenError
from relaygen_lmeval.report.rows import ROWS

_NOT_METRICS = ("alias", "sample_len", "name", "sample_count", *ROWS)


@dataclass(frozen=True, slots=True)
class Run:
    """One task of one run.

    Attributes:
        task: Its name.
        policy: The relay's policy, or the harness model's name.
        metric: Name of the task's first metric.
        value: The metric.
        stderr: Its standard error, where the harness gives one.
        n: Problems.
        totals: Latency totals of the relay; empty for another model.
        models: The names of the models.
    """

    task: str
    policy: str
    metric: str
    value: float
    stderr: float | None
    n: int
    totals: dict[str, float]
    models: tuple[str, ...]


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Read the newest result of every policy and task below the folders.

    Raises:
        RelayGenError: There is none.
    """
    files = sorted(
        (file for folder in folders for file in folder.rglob("results*.json")),
        key=lambda file: file.stat().st_mtime,
    )
    runs = {(run.task, run.policy): run for file in files for run in _read(file)}
    if not runs:
        names = ", ".join(map(str, folders))
        raise RelayGenError(
            f"no results*.json below {names}; make some with lm_eval --output_path FOLDER"
        )
    return list(runs.values())


def summary_table(runs: Sequence[Run], baseline: str) -> Table:
    """Accuracy, latency and speedup for a terminal.

    Args:
        runs: As `read_runs` gives them.
        baseline: The policy that speedups are over: its mean E2E by the run's.
    """
    base = {run.task: run.totals.get("e2e_mean_s") for run in runs if run.policy == baseline}
    scored = ", ".join(sorted({f"{run.task}: {run.metric}" for run in runs}))
    table = Table(title=scored, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    many = len({run.task for run in runs}) > 1
    if many:
        table.add_column("task", overflow="fold")
    table.add_column("policy", no_wrap=True)
    for name in ("metric ± stderr", "n", "E2E s", "tok/s", "share", f"over {baseline}"):
        table.add_column(name, justify="right", no_wrap=True)
    for run in sorted(runs, key=lambda run: run.task):
        task = [run.task] if many else []
        table.add_row(*task, *_cells(run, base.get(run.task)))
    return table


def _cells(run: Run, base_s: float | None) -> list[str]:
    e2e_s = run.totals.get("e2e_mean_s")
    value = f"{run.value:.3f}" + (f" ± {run.stderr:.3f}" if run.stderr is not None else "")
    return [
        run.policy,
        value,
        str(run.n),
        _number(e2e_s, "{:.3f}"),
        _number(run.totals.get("tokens_per_s"), "{:.0f}"),
        _number(run.totals.get("share"), "{:.2f}"),
        _number(base_s / e2e_s if base_s and e2e_s else None, "{:.2f}x"),
    ]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _read(file: Path) -> list[Run]:
    content = json.loads(file.read_text(encoding="utf-8"))
    config = content.get("config", {})
    relay = config.get("relay", {})
    policy = relay.get("policy", config.get("model", "?"))
    models = tuple(model["name"] for model in relay.get("models", []))
    runs = []
    for task, results in content.get("results", {}).items():
        if metric := _first_metric(results):
            name, value, stderr = metric
            n = content.get("n-samples", {}).get(task, {}).get("effective", 0)
            totals = relay.get("totals", {}).get(task, {})
            runs.append(Run(task, policy, name, value, stderr, n, totals, models))
    return runs


def _first_metric(results: dict[str, Any]) -> tuple[str, float, float | None] | None:
    for key, value in results.items():
        name, _, filter_name = key.partition(",")
        if name in _NOT_METRICS or name.endswith("_stderr") or not isinstance(value, int | float):
            continue
        stderr = results.get(f"{name}_stderr,{filter_name}")
        return name, float(value), float(stderr) if isinstance(stderr, int | float) else None
    return None
