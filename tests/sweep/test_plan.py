"""A sweep file becomes cells; what cannot be is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from relaygen_lmeval.errors import SweepError
from relaygen_lmeval.sweep.plan import Plan, read_plan
from relaygen_lmeval.tasks import tasks_path

GRID = """
tasks: t
model_args: {batch_size: 4}
grid:
  policy: [large, relay]
  gen_kwargs.temperature: [0.0, 0.6]
"""


def plan_of(tmp_path: Path, text: str) -> Plan:
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    return read_plan(path)


def test_a_grid_is_every_combination(tmp_path):
    cells = plan_of(tmp_path, GRID).cells

    assert [cell.name for cell in cells] == [
        f"policy={policy},gen_kwargs.temperature={temperature}"
        for policy in ("large", "relay")
        for temperature in (0.0, 0.6)
    ]
    assert cells[3].content() == {
        "tasks": ["t"],
        "model_args": {"batch_size": 4, "policy": "relay"},
        "gen_kwargs": {"temperature": 0.6},
    }


def test_cells_and_a_grid_are_combined_and_may_name_each_other(tmp_path):
    plan = plan_of(
        tmp_path,
        """
        tasks: [a, b]
        harness: {limit: 3}
        grid: {seed: [1, 2]}
        cells:
          - {name: relay, policy: relay}
          - {policy: random, like: "cell:relay"}
        """,
    )

    assert [cell.name for cell in plan.cells] == [
        "relay,seed=1",
        "relay,seed=2",
        "policy=random,like=cell_relay,seed=1",
        "policy=random,like=cell_relay,seed=2",
    ]
    assert plan.cells[3].model_args["like"] == "cell:relay,seed=2"
    assert plan.cells[3].tasks == ("a", "b")
    assert plan.harness == {"limit": 3}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file: None has to be names with values"),
        ("[1, 2]", "the file: .* has to be names"),
        ("a: [", "is no YAML"),
        ("tasks: t\ngird: {}", "unknown key 'gird'; did you mean 'grid'"),
        ("tasks: t\nharness: {limits: 1}\ngrid: {a: [1]}", "did you mean 'limit'"),
        ("tasks: t", "neither grid: nor cells:"),
        ("tasks: t\ngrid: {}", "grid: is empty"),
        ("tasks: t\ngrid: {policy: []}", "grid: policy: .* at least one value"),
        ("tasks: t\ngrid: {policy: relay}", "grid: policy: 'relay' has to be a list"),
        ("tasks: t\ncells: []", "cells: .* at least one"),
        ("tasks: t\ncells: [5]", r"cells\[0\]: 5 has to be names"),
        ("grid: {policy: [large]}", "tasks: None has to be a task"),
        ("tasks: t\ngrid: {seed: [1, 1]}", "cells 'seed=1' and 'seed=1' are the same"),
        ("tasks: t\ncells: [{name: a, seed: 1}, {name: a, seed: 2}]", "two cells are called 'a'"),
        ("tasks: t\ncells: [{seed: 1}]\ngrid: {seed: [1]}", "seed stands in cells: and in grid:"),
        ("tasks: t\ngrid: {log_dir: [x]}", "log_dir is every cell's own"),
        ("tasks: t\ncells: [{like: 'cell:b'}, {name: b}]", "no cell before it is called 'b'"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, text, said):
    with pytest.raises(SweepError, match=f"sweep.yaml.*{said}"):
        plan_of(tmp_path, text)


def test_a_file_that_is_not_there():
    with pytest.raises(SweepError, match="cannot be read"):
        read_plan(Path("no such.yaml"))


def test_names_stay_within_their_folder(tmp_path):
    plan = plan_of(tmp_path, "tasks: t\ncells: [{name: '../../x', a: 1}, {name: '.y/ z', a: 2}]")

    assert [cell.name for cell in plan.cells] == ["_.._x", "y_z"]


def test_shipped_sweeps_can_be_read():
    files = sorted((tasks_path() / "sweeps").glob("*.yaml"))

    assert {path.stem for path in files} == {"ablations", "paper", "policies", "policies_sampled"}
    assert all(read_plan(path).cells for path in files)
