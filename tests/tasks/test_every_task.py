"""Every task runs by name, with our model and with others, and its table says what it must."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from lm_eval import simple_evaluate
from lm_eval.utils import make_table

from relaygen_lmeval.demo import demo_path
from relaygen_lmeval.journal import read_journal
from tests.tasks.layout import LANGUAGES

SEVEN = ("gsm8k", "math500", "aime24", "aime25", "amc23", "gpqa_diamond", "mgsm_pt")
SAMPLED = {f"relaygen_{name}" for name in (*SEVEN, *(f"mgsm_{code}" for code in LANGUAGES))}
GREEDY = {f"{name}_greedy" for name in SAMPLED} | {"relaygen_arithmetic_greedy"}
SAMPLED = SAMPLED | {"relaygen_arithmetic_sampled"}
AT_4 = {"avg@4", "maj@4", "pass@2", "pass@4", "truncated", "no_answer"}
AT_1 = {"avg@1", "truncated", "no_answer"}
ROWS = {"e2e_s", "large_share", "tokens"}


def metrics(results: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Value by metric, errors left out."""
    found = results["results"][task]
    return {
        name.partition(",")[0]: value
        for name, value in found.items()
        if "," in name and "_stderr" not in name
    }


@pytest.fixture(scope="module")
def relayed(hub, manager, tmp_path_factory) -> tuple[Mapping[str, Any], list[dict[str, Any]]]:
    """All tasks, two documents each, answers cut short; results and journal."""
    folder = tmp_path_factory.mktemp("log")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(hub)
        results = simple_evaluate(
            "relaygen",
            model_args={"log_dir": str(folder), "batch_size": 32},
            tasks=["relaygen_reasoning", "relaygen_reasoning_greedy"],
            limit=2,
            gen_kwargs={"max_gen_toks": 40},
            apply_chat_template=True,
            task_manager=manager,
        )
    assert results is not None
    records = [r for r in read_journal(folder / "journal.jsonl") if r["kind"] == "request"]
    return results, records


@pytest.mark.slow
def test_all_tasks_run_with_their_metrics(relayed):
    results, _ = relayed
    scored = {name for name, found in results["results"].items() if "sample_len" in found}

    assert scored >= SAMPLED | GREEDY
    for task in SAMPLED:
        assert set(metrics(results, task)) == AT_4 | ROWS
    for task in GREEDY:
        assert set(metrics(results, task)) == AT_1 | ROWS


@pytest.mark.slow
def test_repeats_and_settings_are_those_of_the_paper(relayed):
    results, records = relayed

    for task in SAMPLED - {"relaygen_arithmetic_sampled"}:
        config = results["configs"][task]
        assert config["repeats"] == 4
        kwargs = {**config["generation_kwargs"], "max_gen_toks": 32768}
        assert kwargs == {
            "until": [],
            "do_sample": True,
            "temperature": 0.6,
            "top_p": 0.95,
            "top_k": 20,
            "max_gen_toks": 32768,
        }
        mine = [r for r in records if r["task"] == task]
        assert sorted((r["doc_id"], r["repeat"]) for r in mine) == [
            (doc, repeat) for doc in range(2) for repeat in range(4)
        ]
        assert {r["sampling"]["temperature"] for r in mine} == {0.6}
    for task in GREEDY:
        assert results["configs"][task]["repeats"] == 1
        assert {r["sampling"]["temperature"] for r in records if r["task"] == task} == {0.0}


@pytest.mark.slow
def test_prompts_ask_for_a_box_and_have_no_backspace(relayed):
    _, records = relayed

    for record in records:
        assert r"\boxed{}" in record["prompts"]["large"]
        assert "\b" not in record["prompts"]["large"]
        assert "None" not in record["prompts"]["large"]
    japanese = next(r for r in records if r["task"] == "relaygen_mgsm_ja")
    assert "ジャネット" in japanese["prompts"]["large"]
    assert "最終的な答え" in japanese["prompts"]["large"]


@pytest.mark.slow
def test_rows_are_the_means_of_the_journal_with_errors_by_document(relayed):
    results, records = relayed

    for task in ("relaygen_gsm8k", "relaygen_aime25_greedy"):
        mine = [r for r in records if r["task"] == task]
        found = results["results"][task]
        assert found["e2e_s,none"] == pytest.approx(np.mean([r["e2e_s"] for r in mine]))
        assert found["tokens,none"] == pytest.approx(np.mean([r["n_tokens"] for r in mine]))
        large = sum(r["n_large_tokens"] for r in mine)
        assert found["large_share,none"] == pytest.approx(large / sum(r["n_tokens"] for r in mine))
        by_document = [np.mean([r["e2e_s"] for r in mine if r["doc_id"] == i]) for i in range(2)]
        error = np.std(by_document, ddof=1) / np.sqrt(2)
        assert found["e2e_s_stderr,none"] == pytest.approx(error)
        totals = results["config"]["relay"]["totals"][task]
        assert found["large_share,none"] == pytest.approx(totals["share"])


@pytest.mark.slow
def test_rows_stand_in_the_stock_table(relayed):
    results, _ = relayed
    table = make_table(results)

    assert table.count("|e2e_s") == len(SAMPLED | GREEDY)
    [mgsm] = [row for row in make_table(results, "groups").splitlines() if "avg@4" in row]
    assert "relaygen_mgsm" in mgsm


@pytest.mark.slow
def test_cut_reasonings_are_counted_and_never_right(relayed):
    results, records = relayed
    n_cut = 0

    for task in SAMPLED | GREEDY:
        mine = [r for r in records if r["task"] == task]
        cut = ["reasoning_closed" in r["flags"] for r in mine]
        n_cut += sum(cut)
        found = metrics(results, task)
        assert found["truncated"] == pytest.approx(np.mean(cut))
        for sample in results["samples"][task]:
            average = sample.get("avg@4", sample.get("avg@1"))
            assert average + sample["truncated"] + sample["no_answer"] <= 1
    assert n_cut > 20


@pytest.mark.slow
def test_other_models_have_no_rows_and_their_open_reasonings_are_cut(hub, manager):
    results = simple_evaluate(
        "hf",
        model_args={"pretrained": str(demo_path() / "large"), "device": "cpu"},
        tasks=["relaygen_arithmetic_greedy", "relaygen_gsm8k"],
        limit=2,
        gen_kwargs={"max_gen_toks": 20},
        apply_chat_template=True,
        task_manager=manager,
    )

    assert set(metrics(results, "relaygen_arithmetic_greedy")) == AT_1
    assert set(metrics(results, "relaygen_gsm8k")) == AT_4
    [resps, _] = [sample["resps"][0] for sample in results["samples"]["relaygen_gsm8k"]]
    assert all("<think>" in text and "</think>" not in text for text in resps)
    assert metrics(results, "relaygen_gsm8k")["truncated"] == 1


@pytest.mark.slow
def test_four_repeats_are_four_texts_and_the_same_four_again(hub, manager, tmp_path):
    def texts(seed: int, name: str) -> list[str]:
        simple_evaluate(
            "relaygen",
            model_args={"log_dir": str(tmp_path / name), "batch_size": 4, "policy": "large"},
            tasks=["relaygen_arithmetic_sampled"],
            limit=1,
            apply_chat_template=True,
            torch_random_seed=seed,
            task_manager=manager,
        )
        records = read_journal(tmp_path / name / "journal.jsonl")
        found = [r for r in records if r["kind"] == "request"]
        return [r["text"] for r in sorted(found, key=lambda r: r["repeat"])]

    first = texts(1234, "first")

    assert len(set(first)) == 4
    assert texts(1234, "again") == first
    assert texts(7, "other") != first


def test_the_yaml_files_name_what_exists(manager):
    """`lm_eval ls tasks` knows them, and no file of ours is a stray."""
    ours = {name for name in manager.all_tasks if name.startswith("relaygen_")}
    groups = {f"relaygen_{g}{s}" for g in ("paper", "mgsm", "reasoning") for s in ("", "_greedy")}

    assert SAMPLED | GREEDY | groups <= ours
    assert ours - SAMPLED - GREEDY - groups == {
        "relaygen_arithmetic",
        "relaygen_arithmetic_calibration",
    }
    assert json.dumps(sorted(ours))  # plain strings, as the harness lists them
