"""A report of real runs of the harness on the embedded pair."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from relaygen_lmeval.cli import app
from relaygen_lmeval.report.gather import gather

SWEEP = """
tasks: relaygen_arithmetic
model_args: {batch_size: 6}
harness: {apply_chat_template: true, limit: 6}
gen_kwargs: {do_sample: true, temperature: 0.6}
grid: {seed: [1, 2]}
cells:
  - {name: large, policy: large}
  - {name: random, policy: random, share: 0.5}
"""


@pytest.mark.slow
def test_a_sweep_is_reported_as_the_harness_scored_it(tmp_path: Path):
    file, folder, output = (tmp_path / name for name in ("sweep.yaml", "runs", "report"))
    file.write_text(SWEEP)
    swept = CliRunner().invoke(app, ["sweep", str(file), "--output", str(folder)])
    assert swept.exit_code == 0, swept.output

    arguments = ["report", str(folder), "--output", str(output), "--no-pictures", "--no-page"]
    shown = CliRunner().invoke(app, arguments)

    assert shown.exit_code == 0, shown.output
    assert "note:" not in shown.output
    large, random = csv.DictReader((output / "report.csv").read_text().splitlines())
    assert (large["policy"], random["policy"]) == ("large", "random")
    for row in (large, random):
        cells = sorted(folder.glob(f"{row['policy']},seed=*/results_*.json"))
        results = [json.loads(cell.read_text()) for cell in cells]
        scored = [r["results"]["relaygen_arithmetic"]["exact_match,none"] for r in results]
        totals = [r["config"]["relay"]["totals"]["relaygen_arithmetic"] for r in results]
        assert (row["runs"], row["problems"], row["texts"]) == ("2", "6", "12")
        assert float(row["accuracy"]) == pytest.approx(sum(scored) / 2)
        assert float(row["e2e_mean_s"]) == pytest.approx(sum(t["e2e_mean_s"] for t in totals) / 2)
        assert float(row["wall_s"]) == pytest.approx(sum(t["wall_s"] for t in totals))
    assert all(
        text.record and text.prompt for one in gather([folder]).contestants for text in one.texts
    )
