"""Figures against a computation by hand."""

from __future__ import annotations

import csv
import io
import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from relaygen_lmeval.cli import app
from relaygen_lmeval.errors import ReportError
from relaygen_lmeval.report.compare import compare
from relaygen_lmeval.report.estimate import Costs
from relaygen_lmeval.report.gather import gather
from relaygen_lmeval.report.tables import COLUMNS, csv_table, markdown_table, terminal_table

from .conftest import request, segment


@pytest.fixture
def two(write_run, tmp_path):
    """Large is right on 7 of 8 problems in 2 s each, relay on the last 2 of them in 1 s."""
    docs = range(8)
    write_run("large", "large", [request(d, e2e_s=2.0) for d in docs], [1.0] * 7 + [0.0])
    write_run("relay", "relay", [request(d, e2e_s=1.0) for d in docs], [0.0] * 6 + [1.0] * 2)
    return tmp_path


def lines_of(folder, baseline=None):
    (comparison,) = compare(gather([folder]), baseline)
    return comparison, {line.name: line for line in comparison.lines}


def test_differences_are_paired_by_problem(two):
    comparison, by_name = lines_of(two)

    assert (comparison.baseline, comparison.n_problems) == ("large", 8)
    assert by_name["large"].accuracy.value == 7 / 8
    paired = by_name["relay"].paired
    assert by_name["large"].paired is None
    assert paired.difference.value == (2 - 7) / 8
    assert paired.difference.low < paired.difference.value < paired.difference.high < 0
    assert (paired.better, paired.worse) == (1, 6)
    assert paired.p == pytest.approx(2 * (1 + 7) / 2**7)  # McNemar: 1 of 7 or fewer, both sides


def test_speedup_is_over_the_baseline_and_an_interval_repeats(two):
    _, by_name = lines_of(two)
    _, again = lines_of(two)

    speedup = by_name["relay"].speedup
    assert (speedup.value, speedup.low, speedup.high) == (2.0, 2.0, 2.0)
    assert by_name["relay"] == again["relay"]


def test_another_baseline_turns_the_signs(two):
    _, by_name = lines_of(two, "relay")

    assert by_name["large"].paired.difference.value == 5 / 8
    assert by_name["large"].speedup.value == 0.5


def test_an_unknown_baseline_names_the_known(two):
    with pytest.raises(ReportError, match=r"'larg'; --baseline can be large, relay"):
        lines_of(two, "larg")


def test_seeds_count_a_problem_once(write_run, tmp_path):
    write_run("large", "large", [request(d) for d in range(4)], [1.0] * 4)
    for seed, verdicts in ((1, [1.0, 1.0, 0.0, 0.0]), (2, [1.0, 0.0, 1.0, 0.0])):
        records = [request(d, seed) for d in range(4)]
        write_run(f"relay{seed}", "relay", records, verdicts, seed=seed)

    _, by_name = lines_of(tmp_path)

    relay = by_name["relay"]
    assert (relay.n_runs, relay.n_texts) == (2, 8)
    assert relay.accuracy.value == 0.5
    assert relay.paired.difference.value == -0.5
    assert (relay.paired.better, relay.paired.worse) == (0, 3)


def test_runs_at_different_times_are_not_one_long_run(write_run, tmp_path):
    for seed in (1, 2):
        write_run(f"r{seed}", "relay", [request(0, seed, e2e_s=2.0)], [1.0], seed=seed)

    _, by_name = lines_of(tmp_path)

    assert by_name["relay"].totals["wall_s"] == 4.0
    assert by_name["relay"].totals["tokens_per_s"] == 24 / 4


def test_times_that_differ_between_runs_are_not_trusted(write_run, tmp_path):
    for seed, e2e_s in ((1, 1.0), (2, 1.2)):
        write_run(f"r{seed}", "relay", [request(0, seed, e2e_s=e2e_s)], [1.0], seed=seed)
    assert lines_of(tmp_path)[0].note == ""
    write_run("r3", "relay", [request(0, 3, e2e_s=2.5)], [1.0], seed=3)

    note = lines_of(tmp_path)[0].note

    assert note.startswith("the mean E2E of relay differs by a factor of 2.5 between its runs")


def test_speedups_by_forwards_know_no_clock(two):
    """Of a relay's 12 forwards 6 are the large model's; alone it needs its 12 here as well."""
    (journal,) = two.glob("large/journal.jsonl")
    head = journal.read_text().splitlines()[0]
    records = [request(d, e2e_s=99.0, segments=[segment("large", 12, "a")]) for d in range(8)]
    journal.write_text("\n".join([head, *map(json.dumps, records)]) + "\n")

    (comparison,) = compare(gather([two]), None, Costs(30, 5))

    large, relay = (line.speedup for line in comparison.lines)
    assert large is not None
    assert relay is not None
    assert large.value == 1.0
    assert relay.value == pytest.approx(12 * 30 / (6 * 30 + 6 * 5))
    assert comparison.timed_by == "forwards of 30 and 5 ms"
    assert "speedup: forwards of 30 and 5 ms of large over this one's" in markdown_table(comparison)


def test_step_times_go_together(two):
    result = CliRunner().invoke(app, ["report", str(two), "--large-ms", "3"])

    assert "--large-ms and --small-ms go together" in str(result.exception)


def test_only_what_is_common_is_compared_and_it_is_said(write_run, tmp_path):
    write_run("large", "large", [request(d) for d in range(6)], [1.0] * 6)
    write_run("relay", "relay", [request(d) for d in (4, 5, 6)], [1.0, 0.0, 0.0])

    comparison, by_name = lines_of(tmp_path)

    assert comparison.n_problems == 2
    assert by_name["relay"].accuracy.value == 0.5
    assert comparison.note == (
        "compared on the 2 problems that all have; problems: large 6, relay 3"
    )


def test_nothing_in_common_is_said(write_run, tmp_path):
    write_run("large", "large", [request(0)], [1.0])
    write_run("relay", "relay", [request(1)], [1.0])

    comparison, by_name = lines_of(tmp_path)

    assert comparison.note.startswith("no problem is common to all")
    assert by_name["relay"].accuracy is by_name["relay"].paired is by_name["relay"].speedup is None
    assert "-" in markdown_table(comparison)


def test_journals_without_verdicts_compare_times(write_run, tmp_path):
    write_run("large", "large", [request(0, e2e_s=3.0), request(1, e2e_s=1.0)])
    write_run("relay", "relay", [request(0), request(1)])

    _, by_name = lines_of(tmp_path)

    assert by_name["relay"].accuracy is by_name["relay"].paired is None
    assert by_name["relay"].speedup.value == 2.0


@pytest.mark.parametrize("width", [80, 200])
def test_the_table_fits_a_terminal(two, width):
    (two / "relay").rename(two / "speculative_thinking")  # the longest name of a policy
    (two / "speculative_thinking" / "cell.json").write_text("{}")
    comparison, _ = lines_of(two)
    console = Console(width=width, record=True)
    console.print(terminal_table(comparison, width))

    shown = console.export_text()
    assert "t: exact_match, 8 problems" in shown
    assert "-62.5 (" in shown
    assert "…" not in shown
    assert "share" in shown
    assert "speculative" in shown  # a name may go on in the next line
    assert max(map(len, shown.splitlines())) <= width
    assert all(column.heading.split("{")[0].split()[0] in shown for column in COLUMNS
               if width == 200 or not column.wide)  # fmt: skip


def test_markdown_has_every_column_and_says_what_it_is(two):
    comparison, _ = lines_of(two)

    text = markdown_table(comparison)

    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {len(COLUMNS) + 2}
    assert "| 25.0 ± 16.4 | -62.5 (" in text
    assert "less large, points: paired by problem" in text


def test_csv_has_plain_numbers(two):
    comparison, _ = lines_of(two)

    large, relay = csv.DictReader(io.StringIO(csv_table([comparison])))

    assert (large["policy"], large["accuracy"], large["difference"]) == ("large", "0.875", "")
    assert (relay["difference"], relay["better"], relay["worse"]) == ("-0.625", "1", "6")
    assert relay["speedup"] == "2.0"


def test_the_command_writes_the_tables(two, tmp_path):
    output = tmp_path / "out"

    result = CliRunner().invoke(app, ["report", str(two), "--output", str(output)])

    assert result.exit_code == 0, result.output
    assert "8 problems" in result.output
    assert (output / "report.md").read_text().startswith("## t: exact_match")
    assert (output / "report.csv").read_text().count("\n") == 3
