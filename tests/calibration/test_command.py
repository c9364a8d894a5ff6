"""`relaygen calibrate` on the embedded pair: from a task to a cue file, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from relaygen_lmeval.calibration import command, traces
from relaygen_lmeval.calibration.command import calibrate
from relaygen_lmeval.calibration.findings import print_calibration
from relaygen_lmeval.calibration.scoring import score
from relaygen_lmeval.cuefile import cue_file_for, read_cue_file
from relaygen_lmeval.demo import demo_path
from relaygen_lmeval.errors import CalibrationError, ConfigError, TraceError
from relaygen_lmeval.journal import read_journal
from relaygen_lmeval.models.pair import Pair


def lines(journal: Path) -> list[dict[str, Any]]:
    return list(read_journal(journal))


def rewritten(journal: Path, folder: Path, change: Any) -> Path:
    """A copy of a journal with every record changed by a function that may drop it."""
    kept = [new for record in lines(journal) if (new := change(record))]
    folder.mkdir(exist_ok=True)
    path = folder / "journal.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in kept), encoding="utf-8")
    return path


def test_the_file_has_all_that_the_schema_promises(settings, made):
    file = read_cue_file(settings.output)
    source: dict[str, Any] = dict(file.source)

    assert file == made.cue_file
    assert (file.name, file.large, file.small) == ("mine", "demo/large", "demo/small")
    assert (file.match, file.boundaries) == ("word", "unicode")
    assert source["task"] == ["relaygen_arithmetic_calibration"]
    assert (source["n"], source["repeats"], source["traces"]) == (6, 2, 12)
    assert source["sampling"]["temperature"] == 0.6
    assert (source["rule"], source["margins_by"]) == ("mean", "small")
    assert (source["seed"], source["bootstrap_seed"]) == (1234, 1234)
    assert len(source["date"]) == 10
    for role in ("large", "small"):
        assert source["models"][role]["sha"].startswith("local-")
        assert len(source["models"][role]["tokenizer"]) == 16
    for cue, statistics in file.statistics.items():
        assert statistics["selected"] == (cue in file.cues)
        assert statistics["reason"]
    assert str(demo_path()) not in settings.output.read_text(encoding="utf-8")


def test_two_pictures_are_drawn(settings, made):
    for name in ("mine.png", "mine_trace.png"):
        assert (settings.output.parent / name).read_bytes().startswith(b"\x89PNG")


def test_the_table_says_what_to_expect(settings, made):
    console = Console(width=80, record=True)

    print_calibration(made, settings, console)

    text = console.export_text()
    assert all(cue in text for cue in made.cue_file.cues)
    assert "times as fast as the large model alone" in text
    assert 0 < made.expected.handed_over < 1
    assert 0 < made.expected.share < 1
    assert made.expected.speedup > 0


def test_the_same_traces_give_the_same_bytes(settings, again):
    calibrate(again)

    assert again.output.read_bytes() == settings.output.read_bytes()
    pictures = [s.output.with_suffix(".png").read_bytes() for s in (settings, again)]
    assert pictures[0] == pictures[1]


@pytest.mark.slow
def test_an_interrupted_run_goes_on_and_gives_the_same_file(settings, journal, tmp_path):
    cut = "".join(journal.read_text(encoding="utf-8").splitlines(keepends=True)[:6])
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "journal.jsonl").write_text(cut + '{"kind": "requ\n', encoding="utf-8")
    resumed = replace(settings, output=tmp_path / "mine.json", log_dir=tmp_path / "log")

    calibrate(resumed)

    held = [r for r in lines(tmp_path / "log" / "journal.jsonl") if r["kind"] == "request"]
    assert len(held) == 12
    assert resumed.output.read_bytes() == settings.output.read_bytes()


@pytest.mark.slow
def test_other_sampling_is_not_taken_for_the_same_traces(settings, journal, tmp_path):
    path = rewritten(journal, tmp_path / "log", lambda record: record)
    hotter = replace(
        settings,
        output=tmp_path / "mine.json",
        log_dir=tmp_path / "log",
        gen_kwargs={"temperature": 0.9},
        limit=2,
    )

    source: dict[str, Any] = dict(calibrate(hotter).cue_file.source)

    assert source["sampling"]["temperature"] == 0.9
    assert len([r for r in lines(path) if r["kind"] == "request"]) == 12 + 4


@pytest.mark.parametrize("by", ["large", "both"])
def test_margins_by_the_large_model_or_both(settings, made, again, by):
    other = calibrate(replace(again, margins_by=by, pictures=False))

    assert other.cue_file.source["margins_by"] == by
    assert other.measured.n_tokens == made.measured.n_tokens
    assert other.measured.global_mean != made.measured.global_mean
    assert not again.output.with_suffix(".png").exists()


def test_openers_of_the_traces_are_tried_too(made, again):
    found = calibrate(replace(again, discover=True, pictures=False))

    assert found.measured.cues.keys() > made.measured.cues.keys()


def test_another_tokenizer_gives_margins_of_the_same_characters(pair, journal):
    """The small model in the role of one with its own tokenizer: the texts are compared, not ids."""
    records = [r for r in lines(journal) if r["kind"] == "request"]
    apart = Pair(pair.large, pair.small, shares_ids=False)
    for_both = [{**r, "prompt_tokens": {"large": n, "small": n}} for r in records if (n := n_of(r))]

    own = score(pair, traces.read_traces(pair, records, journal))
    other = score(apart, traces.read_traces(apart, for_both, journal))

    for a, b in zip(own, other, strict=True):
        assert b.scored_texts is not None
        assert "".join(b.scored_texts) == "".join(a.texts)
        if b.scored_texts == a.texts:  # the model wrote what the tokenizer reads
            assert b.margins == pytest.approx(a.margins, abs=1e-4)


def n_of(record: dict[str, Any]) -> int:
    return int(record["prompt_tokens"]["large"])


def test_an_output_that_exists_is_kept(settings, made, monkeypatch):
    before = settings.output.read_bytes()
    monkeypatch.setattr(command, "make_pair", lambda config: pytest.fail("loaded"))
    monkeypatch.setattr(command, "RelayLM", lambda **options: pytest.fail("loaded"))

    with pytest.raises(CalibrationError, match=r"exists and is kept.*--overwrite"):
        calibrate(settings)

    assert settings.output.read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tasks": ()}, "name the task"),
        ({"limit": 0}, "--limit 0 must be at least 1"),
        ({"repeats": 0}, "--repeats 0 must be at least 1"),
        ({"rule": "median"}, "--rule median is not one of ci, paper, mean"),
        ({"margins_by": "none"}, "--margins-by none is not one of"),
        ({"match": "regex"}, "--match regex is not one of"),
        ({"alpha": 1.5}, "--alpha 1.5 must lie between 0 and 1"),
        ({"output": Path("mine.txt")}, "must end in .json"),
        ({"traces": Path("none.jsonl")}, "is no file"),
        ({"tasks": ("relaygen_arithmetik",)}, "relaygen_arithmetik"),
        ({"candidates": Path("none.txt")}, "cannot be read"),
        ({"model_args": "pretrained=a/b"}, "without small="),
    ],
)
def test_wrong_options_are_refused_before_a_model_is_loaded(
    settings, monkeypatch, tmp_path, changes, said
):
    monkeypatch.setattr(command, "make_pair", lambda config: pytest.fail("loaded"))
    monkeypatch.setattr(command, "RelayLM", lambda **options: pytest.fail("loaded"))

    with pytest.raises((CalibrationError, ConfigError), match=said):
        calibrate(replace(settings, **{"output": tmp_path / "new.json", **changes}))


@pytest.mark.slow
def test_a_task_that_generates_nothing_is_refused(monkeypatch, tmp_path):
    (tmp_path / "choice.yaml").write_text(
        "task: relaygen_choice\ncustom_dataset: !function choice.load\ntest_split: test\n"
        "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_target: 0\ndoc_to_choice: [a, b]\n"
    )
    (tmp_path / "choice.py").write_text(
        "from datasets import Dataset\n"
        "def load(**_):\n    return {'test': Dataset.from_list([{'q': 'x'}])}\n"
    )
    monkeypatch.setattr(traces, "tasks_path", lambda: tmp_path)

    with pytest.raises(TraceError, match=r"relaygen_choice generates nothing.*multiple_choice"):
        traces.load_tasks(["relaygen_choice"], {}, None)


def other_model(record: dict[str, Any]) -> dict[str, Any]:
    if record["kind"] == "header":
        record["models"][0].update(sha="local-0123", name="org/other")
    return record


def other_policy(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "policy": "relay"} if record["kind"] == "header" else record


def other_prompt(record: dict[str, Any]) -> dict[str, Any]:
    if record["kind"] == "request":
        record["prompt_tokens"]["large"] += 100
    return record


def other_ids(record: dict[str, Any]) -> dict[str, Any]:
    if record["kind"] == "request":
        record["segments"][0]["token_ids"] = [i + 1 for i in record["segments"][0]["token_ids"]]
    return record


def none(record: dict[str, Any]) -> dict[str, Any] | None:
    return record if record["kind"] == "header" else None


def one(record: dict[str, Any]) -> dict[str, Any] | None:
    is_first = record.get("doc_id", 0) == 0 and record.get("repeat", 0) == 0
    return record if is_first else None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (other_model, r"of another large model: sha 'local-0123' \(org/other\), but the one given"),
        (other_policy, "written with policy relay"),
        (other_prompt, "it is another one"),
        (other_ids, "written with another tokenizer"),
        (none, "no traces: .* holds no finished request"),
        (one, "1 trace in .*: with fewer than two no error can be given"),
    ],
)
def test_traces_that_do_not_fit_are_refused(again, journal, tmp_path, change, said):
    path = rewritten(journal, tmp_path / "other", change)
    before = path.read_bytes()

    with pytest.raises(TraceError, match=said):
        calibrate(replace(again, traces=path))

    assert path.read_bytes() == before
    assert not again.output.exists()


@pytest.mark.slow
def test_traces_of_another_model_are_not_continued(settings, journal, tmp_path):
    path = rewritten(journal, tmp_path / "log", other_model)

    with pytest.raises(TraceError, match="another large model"):
        calibrate(replace(settings, output=tmp_path / "new.json", log_dir=path.parent))


def test_traces_without_any_cue_say_so_and_write_nothing(again, tmp_path):
    (tmp_path / "c").write_text("Notwithstanding,\nInasmuch\n")

    with pytest.raises(CalibrationError, match="none of 2 candidates occurs in 12 traces"):
        calibrate(replace(again, candidates=tmp_path / "c"))

    assert not again.output.exists()


def test_candidates_that_all_fail_name_the_best(again):
    with pytest.raises(CalibrationError, match=r"no candidate passes rule ci; the best is '.*' at"):
        calibrate(replace(again, rule="ci", min_occurrences=1000))


def test_auto_takes_the_file_of_the_pair_and_warns_of_other_weights(
    settings, made, monkeypatch, caplog
):
    monkeypatch.setattr("relaygen_lmeval.cuefile.find.list_cue_files", lambda: [settings.output])
    large, small = (str(demo_path() / role) for role in ("large", "small"))

    assert cue_file_for("auto", large, small) == made.cue_file
    assert not caplog.records

    monkeypatch.setattr("relaygen_lmeval.provenance.fingerprint", lambda folder: "0123")
    cue_file_for("auto", large, small)
    assert "was measured on other files of the large model" in caplog.text
    assert f"relaygen calibrate --model_args pretrained={large},small={small}" in caplog.text
