"""Runs are found in any mix of folders, seeds are pooled, and bad folders are named."""

from __future__ import annotations

import json

import pytest

from relaygen_lmeval.errors import JournalError, ReportError
from relaygen_lmeval.report.gather import gather

from .conftest import DATE_S, header, lines, request, sample


def test_results_with_samples_have_verdicts_and_times(write_run):
    folder = write_run("a", "relay", [request(0), request(1)], [1.0, 0.0])

    found = gather([folder])

    assert [one.name for one in found.contestants] == ["relay"]
    assert found.metrics == {"t": "exact_match"}
    first, second = found.contestants[0].texts
    assert (first.problem, first.correct, first.target) == ("hash-0", 1.0, "7")
    assert second.correct == 0.0
    assert first.record is not None
    assert first.record["e2e_s"] == 1.0
    assert "token_ids" not in first.record["segments"][0]


def test_a_bare_journal_has_times_alone(write_run):
    folder = write_run("a", "relay", [request(0)])

    by_folder, by_file = gather([folder]), gather([folder / "journal.jsonl"])

    assert by_folder.contestants == by_file.contestants
    assert by_folder.contestants[0].texts[0].correct is None


def test_a_folder_above_the_journal_counts_nothing_twice(write_run, tmp_path):
    write_run("a", "relay", [request(0)], [1.0])
    folder = write_run("b", "large", [request(0)], [1.0])

    found = gather([tmp_path, folder])

    assert {one.name: len(one.texts) for one in found.contestants} == {"relay": 1, "large": 1}


def test_seeds_of_a_cell_are_one_contestant(write_run, tmp_path):
    for seed in (1, 2):
        like = f"/runs/relay,seed={seed}"
        options = {"policy_options": {"like": like}}
        folder = write_run(
            f"r,seed={seed}", "random", [request(0, seed)], [1.0], seed=seed, **options
        )
        (folder / "cell.json").write_text("{}")

    found = gather([tmp_path])

    assert [one.name for one in found.contestants] == ["r"]
    assert sorted(text.run for text in found.contestants[0].texts) == [0, 1]


def test_one_policy_with_two_settings_is_two_contestants(write_run, tmp_path):
    write_run("a", "relay", [request(0)], [1.0], answer_by="small", cues="/x/a.json")
    write_run("b", "relay", [request(0)], [1.0], answer_by="large", cues="/x/a.json")

    names = [one.name for one in gather([tmp_path]).contestants]

    assert names == ["relay answer_by=small", "relay answer_by=large"]


def test_greedy_and_sampled_are_two_contestants(write_run, tmp_path):
    write_run("a", "relay", [request(0)], [1.0])
    write_run("b", "relay", [request(0, sampling={"temperature": 0.0})], [1.0])

    names = [one.name for one in gather([tmp_path]).contestants]

    assert names == ["relay temperature=0.6", "relay temperature=0.0"]


def test_of_the_same_run_twice_the_last_is_taken(write_run, tmp_path):
    write_run("a", "relay", [request(0)], [0.0], date_s=DATE_S - 9)
    write_run("b", "relay", [request(0)], [1.0])

    found = gather([tmp_path])

    assert [text.correct for text in found.contestants[0].texts] == [1.0]
    assert found.notes == ("an earlier run of relay with the same settings is left out",)


def test_journals_of_two_processes_are_one_run(write_run):
    folder = write_run("a", "relay", [request(0)])
    (folder / "journal.jsonl").rename(folder / "journal.rank0.jsonl")
    head = {"kind": "header", "time": "2023-11-14T22:13:26+00:00", **header("relay")}
    lines(folder / "journal.rank1.jsonl", [head, request(1)])

    (one,) = gather([folder]).contestants

    assert {text.problem for text in one.texts} == {"hash-0", "hash-1"}
    assert {text.run for text in one.texts} == {0}


def test_a_resumed_journal_counts_each_request_once(write_run):
    again = {"kind": "header", "time": "2023-11-15T22:13:26+00:00", **header("relay")}
    folder = write_run("a", "relay", [request(0), again, request(0, e2e_s=2.0), request(1)])

    (one,) = gather([folder]).contestants

    assert len(one.texts) == 2


def test_another_model_of_the_harness_has_verdicts_alone(tmp_path):
    (tmp_path / "results_1.json").write_text(json.dumps({"config": {"model": "hf"}, "date": 1.0}))
    lines(tmp_path / "samples_t_1.jsonl", [sample(request(0), 1.0)])

    (one,) = gather([tmp_path]).contestants

    assert (one.name, one.texts[0].correct, one.texts[0].record) == ("hf", 1.0, None)


def test_a_torn_last_line_is_left_out_and_said(write_run, caplog):
    folder = write_run("a", "relay", [request(0), request(1)])
    journal = folder / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-40])

    (one,) = gather([folder]).contestants

    assert [text.problem for text in one.texts] == ["hash-0"]
    assert "line 3 is torn and left out" in caplog.text


def test_a_journal_that_is_gone_costs_the_times_alone(write_run):
    folder = write_run("a", "relay", [request(0)], [1.0])
    (folder / "journal.jsonl").unlink()

    found = gather([folder])

    assert found.contestants[0].texts[0].correct == 1.0
    assert "its times are left out" in found.notes[0]


def test_bad_folders_are_named(write_run, tmp_path):
    with pytest.raises(ReportError, match="nowhere is not there"):
        gather([tmp_path / "nowhere"])
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ReportError, match=r"no finished request below .*empty.*--log_samples"):
        gather([empty])
    nothing = write_run("nothing", "relay", [])
    with pytest.raises(ReportError, match=r"nothing/journal.jsonl has no finished request"):
        gather([nothing])
    (empty / "results_1.json").write_text("[")
    with pytest.raises(ReportError, match="cannot be read as results of lm_eval"):
        gather([empty])
    (empty / "results_1.json").unlink()
    (empty / "journal.jsonl").write_text("hello\n")
    with pytest.raises(JournalError, match="first line must be a header"):
        gather([empty])


def test_torn_samples_and_foreign_journals_are_named(write_run):
    folder = write_run("a", "relay", [request(0)], [1.0])
    samples = folder / "samples_t_2023.jsonl"
    whole = samples.read_text()
    samples.write_text(whole[:-30])
    with pytest.raises(ReportError, match=r"samples_.* beside .*results_2023.json cannot be read"):
        gather([folder])
    foreign = request(0)
    del foreign["e2e_s"], foreign["flags"]
    with pytest.raises(JournalError, match=r"journal.jsonl: a request lacks flags, e2e_s"):
        gather([write_run("b", "relay", [foreign])])
