"""`relaygen sweep` on the embedded pair, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from relaygen_lmeval.cli import app
from relaygen_lmeval.errors import SweepError
from relaygen_lmeval.journal import read_journal
from relaygen_lmeval.models import assembly
from relaygen_lmeval.models.pair import Pair
from relaygen_lmeval.options.config import RelayConfig
from relaygen_lmeval.sweep.plan import read_plan
from relaygen_lmeval.sweep.run import check
from relaygen_lmeval.tasks import tasks_path

SWEEP = """
tasks: relaygen_arithmetic
model_args: {batch_size: 4}
harness: {apply_chat_template: true, limit: 3}
cells:
  - {name: large, policy: large}
  - {name: relay, policy: relay}
  - {name: fails, policy: random, like: no such journal}
  - {name: random, policy: random, like: "cell:relay"}
  - {name: sampled, gen_kwargs.do_sample: true, gen_kwargs.temperature: 0.7, seed: 3}
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "mine.yaml"
    path.write_text(SWEEP)
    return path


def sweep(*arguments: object) -> tuple[str, BaseException | None]:
    result = CliRunner().invoke(app, ["sweep", *map(str, arguments)])
    return result.output, result.exception


@pytest.mark.slow
def test_a_sweep_runs_skips_records_and_goes_on(file, tmp_path, monkeypatch):
    loaded: list[RelayConfig] = []
    load = assembly._make_pair

    def make_pair(config: RelayConfig) -> Pair:
        loaded.append(config)
        return load(config)

    monkeypatch.setattr(assembly, "_make_pair", make_pair)

    shown, error = sweep(file, "--output", tmp_path)

    assert isinstance(error, SweepError)
    assert "1 of 5 cells failed: fails: journal no such journal cannot be read" in str(error)
    assert "5 of 5 cells" in shown
    assert len(loaded) == 1  # models are shared
    for name in ("large", "relay", "random", "sampled"):
        folder = tmp_path / name
        assert json.loads((folder / "cell.json").read_text())["outcome"]["state"] == "done"
        (results,) = folder.glob("results_*.json")
        said = json.loads(results.read_text())
        assert said["config"]["model"] == "relaygen"
        assert said["config"]["relay"]["journal"] == str(folder / "journal.jsonl")
        (samples,) = folder.glob("samples_relaygen_arithmetic_*.jsonl")
        records = [r for r in read_journal(folder / "journal.jsonl") if r["kind"] == "request"]
        assert len(records) == len(samples.read_text().splitlines()) == 3
    assert records[0]["sampling"]["temperature"] == 0.7
    assert "Traceback" in (tmp_path / "fails" / "output.log").read_text()

    before = (tmp_path / "large" / "journal.jsonl").read_bytes()
    _, error = sweep(file, "--output", tmp_path)
    assert "1 of 5 cells failed" in str(error)
    assert (tmp_path / "large" / "journal.jsonl").read_bytes() == before

    _, error = sweep(file, "--output", tmp_path, "--limit", 2)
    assert "holds a cell of the same name with other settings" in str(error)


@pytest.mark.slow
def test_a_dry_run_shows_the_cells_and_a_time(tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text(
        "tasks: relaygen_arithmetic\nharness: {apply_chat_template: true}\n"
        "grid: {policy: [small], seed: [1, 2]}\n"
    )

    shown, error = sweep(path, "--dry-run", "--probe", 2, "--output", tmp_path / "out")

    assert error is None
    assert "2 cells, 1000 requests" in shown
    assert "by the pace of 2 documents" in shown
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("tasks: nothing_like_it\ngrid: {policy: [large]}", "policy=large.*nothing_like_it"),
        ("tasks: relaygen_arithmetic\ngrid: {polcy: [large]}", "did you mean 'policy'"),
        ("tasks: relaygen_arithmetic\ngrid: {policy: [larg]}", "did you mean 'large'"),
    ],
)
def test_every_cell_is_checked_before_any_is_run(tmp_path, settings, said):
    path = tmp_path / "sweep.yaml"
    path.write_text(settings)

    with pytest.raises(SweepError, match=said):
        check(read_plan(path))


def test_shipped_sweeps_of_the_embedded_pair_can_be_run():
    for name in ("policies", "policies_sampled", "ablations"):
        n_requests = check(read_plan(tasks_path() / "sweeps" / f"{name}.yaml"))

        assert set(n_requests.values()) == {500}
