"""Estimates against a computation by hand."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from relaygen_lmeval.cli import app
from relaygen_lmeval.report.estimate import Costs, Work, e2e_s, work_of

from .conftest import request, segment

RELAY = Work(n_tokens=100, large=40, small=60, large_read=100, small_read=100, prompt=50)
COSTS = Costs(large_ms=30, small_ms=4)


def test_forwards_are_counted_with_those_given_back():
    back = segment("large", 4, "a", given_back_tokens=2)
    judged = segment("large", 0, "", catch_up_tokens=9)
    added = segment(None, 3, "b")

    work = work_of(
        [request(0, segments=[back, added, segment("small", 5, "c"), judged])], small_drafts=False
    )

    assert (work.large, work.small) == (4 + 2 + 1, 5)
    assert (work.large_read, work.small_read, work.prompt) == (5 + 9, 5, 7)
    assert work.n_tokens == 12


def test_accepted_tokens_cost_no_forward_and_drafts_one_of_the_small_model():
    drafts = {"drafted": 8, "accepted": 5, "verified": 3, "draft_s": 0.0}
    records = [request(0, segments=[segment("large", 10, "a", drafts=drafts)])]

    assert work_of(records, small_drafts=True).small == 8
    assert work_of(records, small_drafts=False).small == 0
    assert work_of(records, small_drafts=True).large == 5


def test_one_at_a_time_is_the_sum_of_the_forwards():
    assert e2e_s(RELAY, COSTS) == pytest.approx((40 * 30 + 60 * 4) / 1000)
    assert e2e_s(RELAY, COSTS, devices="two") == pytest.approx(e2e_s(RELAY, COSTS))
    assert e2e_s(RELAY.alone("large"), COSTS) == 3.0
    assert e2e_s(RELAY.alone("small"), COSTS) == 0.4


def test_reading_costs_by_the_token():
    costs = Costs(30, 4, large_read_ms=20, small_read_ms=10)

    assert e2e_s(RELAY, costs) == pytest.approx(e2e_s(RELAY, COSTS) + (0.1 * 20 + 0.1 * 10) / 1000)


def test_on_one_device_every_row_waits_for_both_models():
    """With many rows both models step in every round, so each token costs both steps."""
    assert e2e_s(RELAY, COSTS, 1000) == pytest.approx(100 * (30 + 4) / 1000)
    assert e2e_s(RELAY.alone("large"), COSTS, 1000) == 3.0


def test_one_device_agrees_with_a_simulation():
    rng = np.random.default_rng(0)
    costs, batch = Costs(30, 4, growth=0.1), 4
    at_large = rng.random((20_000, batch)) < 0.4
    rows = np.stack([at_large.sum(1), batch - at_large.sum(1)])
    steps = np.array([[30], [4]]) * np.where(rows > 0, 1 + 0.1 * (rows - 1), 0)

    simulated_s = 100 * steps.sum(0).mean() / 1000

    # 20,000 rounds with a spread of about a third of their mean: five errors are 1.2 %.
    assert e2e_s(RELAY, costs, batch) == pytest.approx(simulated_s, rel=0.012)


def test_two_devices_cost_as_many_rows_as_each_has():
    costs, batch = Costs(30, 4, growth=0.5), 16

    took_s = e2e_s(RELAY, costs, batch, "two")

    # By Little's law the rows at each model are its part of the time: the fixed point.
    rows = np.linspace(0, batch, 100_001)
    large_ms = 1200 * (1 + 0.5 * np.maximum(rows - 1, 0))
    small_ms = 240 * (1 + 0.5 * np.maximum(batch - rows - 1, 0))
    at = np.argmin(abs(large_ms / (large_ms + small_ms) - rows / batch))
    assert took_s == pytest.approx((large_ms + small_ms)[at] / 1000, rel=1e-3)


def test_another_share_divides_the_same_forwards():
    other = RELAY.at_share(0.1)

    assert (other.large, other.small) == (10, 90)
    assert e2e_s(other, COSTS) == pytest.approx(0.66)


def test_the_command_shows_the_figures_and_what_they_assume(write_run):
    folder = write_run("a", "relay", [request(0)])
    options = ["--large-ms", "30", "--small-ms", "4", "--batch", "8", "--share", "0.25"]

    by_folder = CliRunner().invoke(app, ["estimate", str(folder), *options])
    by_file = CliRunner().invoke(app, ["estimate", str(folder / "journal.jsonl"), *options[:4]])

    assert by_folder.exit_code == by_file.exit_code == 0, by_folder.output
    assert "relay, share 0.25" in by_folder.output
    assert "two devices each model steps" in " ".join(by_folder.output.split())
    assert "0.204" in by_file.output  # 6 forwards of 30 ms and 6 of 4 ms
    assert "Assumed: every forward" in by_file.output


@pytest.mark.parametrize("records", [[], None])
def test_a_journal_without_requests_is_named(write_run, tmp_path, records):
    folder = tmp_path if records is None else write_run("a", "relay", records)

    result = CliRunner().invoke(
        app, ["estimate", str(folder), "--large-ms", "30", "--small-ms", "4"]
    )

    assert "has no finished request; name a journal.jsonl" in str(result.exception)
