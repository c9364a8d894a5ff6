"""Every option of the stock command does for our model what it does for `hf`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from relaygen_lmeval.demo import demo_path
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.journal import read_journal
from relaygen_lmeval.report.join import join_results

pytestmark = pytest.mark.slow
TASK = "relaygen_gsm8k_greedy"
LARGE = str(demo_path() / "large")
SHORT = ("--gen_kwargs", "max_gen_toks=200")


def samples(results: Mapping[str, Any], task: str = TASK) -> list[dict[str, Any]]:
    [file] = results["file"].parent.glob(f"samples_{task}_*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def journal(path: Path) -> list[dict[str, Any]]:
    return list(read_journal(path / "journal.jsonl"))


def test_prompts_texts_and_documents_are_those_of_hf(stock, tmp_path):
    """Examples as turns, system instruction, samples, seeds, device, chat template."""
    options = (
        *("--tasks", TASK, "--apply_chat_template", "--log_samples", "--device", "cpu"),
        *("--num_fewshot", "1", "--fewshot_as_multiturn", "true", "--trust_remote_code"),
        *("--system_instruction", "Think first.", "--seed", "0,1,2,3", "--batch_size", "1"),
        *("--samples", json.dumps({TASK: [1, 2]}), *SHORT),
        *("--hf_hub_log_args", "hub_results_org=someone,push_results_to_hub=False"),
    )
    ours = stock(
        *("--model", "relaygen", "--model_args", f"policy=large,log_dir={tmp_path / 'log'}"),
        *options,
        output="ours",
    )
    theirs = stock(
        *("--model", "hf", "--model_args", f"pretrained={LARGE},think_end_token=</think>"),
        *options,
        output="theirs",
    )

    assert [s["doc_id"] for s in samples(ours)] == [1, 2]
    for mine, other in zip(samples(ours), samples(theirs), strict=True):
        for field in ("doc_id", "doc", "target", "arguments", "resps", "prompt_hash", "doc_hash"):
            assert mine[field] == other[field], field
    for field in ("versions", "n-shot", "n-samples", "task_hashes", "system_instruction"):
        assert ours[field] == theirs[field], field
    assert "Think first." in journal(tmp_path / "log")[1]["prompts"]["large"]
    assert journal(tmp_path / "log")[0]["config"]["seed"] == 2
    assert ours["config"]["torch_seed"] == 2


def test_a_configuration_file_does_what_the_options_do(stock, tmp_path):
    """With a limit; and what is left behind is complete."""
    path = tmp_path / "run.yaml"
    content = {
        "model": "relaygen",
        "model_args": {"log_dir": str(tmp_path / "log"), "cues": "demo"},
        "tasks": ["relaygen_arithmetic_greedy"],
        "limit": 2,
        "batch_size": 2,
        "max_batch_size": 4,
        "apply_chat_template": True,
        "log_samples": True,
        "seed": 5,
        "hf_hub_log_args": {"hub_results_org": "someone", "push_results_to_hub": False},
    }
    path.write_text(json.dumps(content))  # which is YAML, too
    results = stock("--config", str(path))
    header, *records = journal(tmp_path / "log")
    relay = results["config"]["relay"]

    assert len(records) == 2
    assert header["config"]["seed"] == 5
    assert header["config"]["batch_size"] == 2
    assert results["config"]["limit"] == 2
    assert [model["role"] for model in relay["models"]] == ["large", "small"]
    for model in relay["models"]:
        assert Path(model["name"]).is_dir()
        assert model["sha"].startswith("local-")
        assert "float32" in model["dtype"]
        assert model["num_parameters"] > 10_000
        assert model["revision"]
    assert len(relay["cues"]["sha256"]) == 64
    assert relay["cues"]["cues"]
    for package in ("python", "torch", "transformers", "lm_eval", "relaygen-lmeval", "math-verify"):
        assert relay["versions"][package]
    assert relay["policy"] == "relay"
    assert relay["handover"] == "token_ids"
    for field in ("git_hash", "date", "chat_template_sha", "model_source", "transformers_version"):
        assert field in results
    found = results["results"]["relaygen_arithmetic_greedy"]
    assert found["e2e_s,none"] == pytest.approx(sum(r["e2e_s"] for r in records) / 2, abs=1e-6)
    assert results["higher_is_better"]["relaygen_arithmetic_greedy"]["e2e_s"] is False


def test_predictions_alone(stock, tmp_path):
    results = stock(
        *("--model", "relaygen", "--model_args", f"log_dir={tmp_path / 'log'}", "--predict_only"),
        *("--tasks", "relaygen_arithmetic_sampled", "--limit", "1", "--apply_chat_template"),
    )

    [sample] = samples(results, "relaygen_arithmetic_sampled")
    assert len(sample["resps"][0]) == 4
    assert sample["metrics"] == ["bypass"]
    assert not any(
        name.startswith("avg@") for name in results["results"]["relaygen_arithmetic_sampled"]
    )


def cached(stock, tmp_path, name: str, model_args: str = "", *options: str) -> tuple[Any, int]:
    """A run with the shared cache; its samples, and how many requests reached the models."""
    folder = tmp_path / name
    results = stock(
        *(
            "--model",
            "relaygen",
            "--model_args",
            ",".join(filter(None, (model_args, f"log_dir={folder}"))),
        ),
        *("--tasks", TASK, "--limit", "2", "--apply_chat_template", "--log_samples"),
        *("--use_cache", str(tmp_path / "cache"), *(options or SHORT)),
        output=name,
    )
    found = samples(results)
    return found, sum(record["kind"] == "request" for record in journal(folder))


def texts(found: list[dict[str, Any]]) -> list[str]:
    return [sample["resps"][0][0] for sample in found]


def test_a_cache_keeps_pairs_policies_and_cue_files_apart(stock, tmp_path):
    cues = json.loads((demo_path().parents[1] / "cues" / "demo.json").read_text())
    other_cues = tmp_path / "cues.json"
    other_cues.write_text(json.dumps({**cues, "cues": cues["cues"][:1]}))
    runs = {
        "relay": "",
        "large": "policy=large",
        "cues": f"cues={other_cues}",
        "pair": f"pretrained={LARGE},small={LARGE},cues=demo",
    }
    first = {name: cached(stock, tmp_path, name, args) for name, args in runs.items()}

    assert {name: n for name, (_, n) in first.items()} == dict.fromkeys(runs, 2)
    for name, args in runs.items():
        again, n = cached(stock, tmp_path, f"{name}_again", args)
        assert n == 0
        assert texts(again) == texts(first[name][0])
    assert texts(first["pair"][0]) == texts(first["large"][0])  # as no handoff changes anything
    assert texts(first["relay"][0]) != texts(first["large"][0])


def test_a_cached_text_still_knows_that_its_reasoning_was_cut(stock, tmp_path):
    cut = ("--gen_kwargs", "max_gen_toks=40")
    first, n_first = cached(stock, tmp_path, "first", "", *cut)
    again, n_again = cached(stock, tmp_path, "again", "", *cut)

    assert (n_first, n_again) == (2, 0)
    assert [s["truncated"] for s in first] == [1, 1]
    assert [s["truncated"] for s in again] == [1, 1]


def test_sampled_texts_are_not_read_back_and_hidden_sampling_is_refused(stock, tmp_path):
    drawn = ("--gen_kwargs", "max_gen_toks=60,do_sample=True,temperature=0.8")
    first, _ = cached(stock, tmp_path, "first", "", *drawn)
    again, n = cached(stock, tmp_path, "again", "", *drawn)

    assert n == 2
    assert texts(again) == texts(first)  # by their seeds
    with pytest.raises(ConfigError, match="every repeat the same text; add do_sample=True"):
        cached(stock, tmp_path, "bad", "", "--gen_kwargs", "do_sample=None,temperature=0.8")


def test_samples_and_journal_are_joined(stock, tmp_path):
    """Of documents that are chosen, four texts each, against what the harness logged."""
    task = "relaygen_arithmetic_sampled"
    results = stock(
        *("--model", "relaygen", "--model_args", f"log_dir={tmp_path / 'log'}", "--log_samples"),
        *("--tasks", task, "--samples", json.dumps({task: [3, 5]}), "--apply_chat_template"),
        *("--batch_size", "8", *SHORT),
    )
    rows = join_results(tmp_path / "results")

    assert [(r["doc_id"], r["repeat"]) for r in rows] == [(d, r) for d in (3, 5) for r in range(4)]
    for found in samples(results, task):
        mine = [row for row in rows if row["doc_id"] == found["doc_id"]]
        assert sum(row["correct"] for row in mine) / 4 == found["avg@4"]
        assert [row["response"] for row in mine] == found["resps"][0]
        assert sum("reasoning_closed" in row["flags"] for row in mine) / 4 == found["truncated"]
    records = journal(tmp_path / "log")[1:]
    assert sorted(row["e2e_s"] for row in rows) == sorted(r["e2e_s"] for r in records)


def test_a_stop_string_inside_the_reasoning_cuts_nothing(stock, tmp_path):
    def run(name: str, *kwargs: str) -> tuple[Mapping[str, Any], list[dict[str, Any]]]:
        folder = tmp_path / name
        results = stock(
            *("--model", "relaygen", "--model_args", f"log_dir={folder}", "--batch_size", "4"),
            *("--tasks", "relaygen_arithmetic_greedy", "--limit", "4", "--apply_chat_template"),
            *("--gen_kwargs", ",".join(["max_gen_toks=300", *kwargs])),
            output=name,
        )
        records = sorted(journal(folder)[1:], key=lambda record: record["doc_id"])
        return results["results"]["relaygen_arithmetic_greedy"], records

    free, free_records = run("free")
    stopped, records = run("stopped", "until=So")

    assert all("So" in record["text"].split("</think>")[0] for record in records)
    assert [r["text"] for r in records] == [r["text"] for r in free_records]
    assert free["avg@1,none"] > 0
    assert stopped["avg@1,none"] == free["avg@1,none"]
