"""`lm_eval --model relaygen` with engine=server, against servers on real sockets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.instance import Instance

from relaygen_lmeval.errors import ConfigError, EngineError, FailedRequests, ServerError
from relaygen_lmeval.harness.model import RelayLM
from relaygen_lmeval.models.pair import Pair
from relaygen_lmeval.relay import parse_options
from tests.servers.loopback import Loopback, Manner

PROMPT = "<|user|>Tom?<|assistant|><think>"


def instance(doc_id: int) -> Instance:
    kwargs = {"until": ["Q:"], "max_gen_toks": 400}
    made = Instance("generate_until", {}, (PROMPT, kwargs), 0)
    made.task_name, made.doc_id = "story", doc_id
    return made


def options(server: Loopback, folder: Path, **more: Any) -> dict[str, Any]:
    urls = {"base_url": server.url, "small_base_url": f"{server.url}/v1"}
    return {"engine": "server", **urls, "log_dir": str(folder), "max_retries": 1, **more}


def records(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "journal.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_a_run_leaves_texts_and_what_the_way_to_the_servers_cost(serve, tmp_path, story):
    lm = RelayLM(**options(serve(), tmp_path))

    texts = lm.generate_until([instance(0), instance(1)], disable_tqdm=True)
    lm.close()

    assert texts == ["The answer is 14.\n\n"] * 2
    header, first, second = records(tmp_path)
    assert header["config"]["engine"] == "server"
    assert header["models"][0]["num_parameters"] > header["models"][1]["num_parameters"] > 0
    assert first["text"] == second["text"]
    assert story.text.startswith(first["text"][:60])
    segments = [s for s in first["segments"] if s["role"]]
    assert all(s["wire"]["n_requests"] >= 1 and s["wire"]["sent_bytes"] > 0 for s in segments)
    assert all(0 < s["wire"]["ttft_s"] <= s["wire"]["e2e_s"] for s in segments)
    assert all(s["wire"]["overhead_s"] is None for s in segments)  # this server tells no times


def test_prompts_and_templates_are_those_of_the_local_engine(serve, tmp_path, pair: Pair):
    lm = RelayLM(**options(serve(), tmp_path))
    chat = [{"role": "user", "content": "How many?"}]

    assert lm.apply_chat_template(chat) == pair.large.apply_chat_template(chat)
    assert lm.tokenizer_name == pair.large.tokenizer_name
    mine, theirs = (m.tok_batch_encode([PROMPT])[0] for m in (lm.relay.pair.large, pair.large))
    assert mine.tolist() == theirs.tolist()
    lm.close()


def test_a_failed_request_is_named_by_task_and_document(serve, tmp_path):
    server = serve()
    lm = RelayLM(**options(server, tmp_path, num_concurrent=1))
    server.faults = ["overflow"]

    with pytest.raises(
        FailedRequests, match=r"1 of 3 requests failed: story 0; the first: .*2 of 3"
    ):
        lm.generate_until([instance(n) for n in range(3)], disable_tqdm=True)

    kinds = [(r["kind"], r.get("doc_id")) for r in records(tmp_path)[1:]]
    assert sorted(kinds) == [("failure", 0), ("request", 1), ("request", 2)]
    lm.close()


def test_a_process_with_a_failed_request_waits_for_the_others(serve, tmp_path, monkeypatch):
    """A launcher ends all of them with the first."""
    server = serve()
    lm = RelayLM(**options(server, tmp_path))
    server.faults = ["overflow"]
    waited: list[bool] = []
    monkeypatch.setattr(lm, "barrier", lambda: waited.append(True))

    with pytest.raises(FailedRequests):
        lm.generate_until([instance(0)], disable_tqdm=True)

    assert waited == [True]
    lm.close()


def test_the_large_model_alone_needs_one_server(serve, tmp_path, story):
    server = serve()
    given = {**options(server, tmp_path, policy="large"), "small_base_url": None}
    lm = RelayLM(**{name: value for name, value in given.items() if value is not None})

    assert lm.generate_until([instance(0)], disable_tqdm=True) == ["The answer is 14.\n\n"]
    assert [model["role"] for model in records(tmp_path)[0]["models"]] == ["large"]
    lm.close()


def test_the_servers_shortest_text_bounds_the_budget(serve, tmp_path):
    lm = RelayLM(**options(serve(Manner(max_length=300)), tmp_path))

    assert lm.relay.pair.large.max_length == 300
    lm.close()


def test_loglikelihoods_of_a_server_without_them_are_refused(serve, tmp_path):
    lm = RelayLM(**options(serve(), tmp_path))

    with pytest.raises(EngineError, match="gives no log-probabilities of a prompt"):
        lm.loglikelihood([Instance("loglikelihood", {}, ("a", " b"), 0)])

    lm.close()


def test_a_hub_name_that_is_not_served_is_refused(serve, tmp_path):
    with pytest.raises((ServerError, ConfigError), match="org/model"):
        RelayLM(**options(serve(), tmp_path, pretrained="org/model", small="org/model"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"engine": "sever"}, "engine=sever is not one of local, server, vllm"),
        ({"engine": "server"}, "engine=server needs base_url=http://HOST:PORT"),
        ({"engine": "server", "base_url": "http://a"}, "needs small_base_url="),
        ({"base_url": "http://a"}, "base_url is for engine=server, but engine=local"),
        ({"engine": "vllm", "compile": "on"}, "compile=on is for engine=local"),
        ({"engine": "vllm", "load_in_4bit": True}, "load_in_4bit=True loads weights in this"),
        ({"engine": "vllm", "num_concurrent": 0}, "num_concurrent=0 must be a whole number"),
        ({"engine": "vllm", "timeout": 0}, "timeout=0 must be a number of seconds"),
        ({"cut": "scissors"}, "cut=scissors is not one of auto, server, stream"),
        ({"num_concurent": 4}, "did you mean 'num_concurrent'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(given, said):
    with pytest.raises(ConfigError, match=said):
        parse_options(given)


def test_concurrency_is_sixteen_unless_something_says_otherwise():
    urls = {"engine": "server", "base_url": "http://a", "small_base_url": "http://b"}

    assert parse_options(urls).n_rows == 16
    assert parse_options({**urls, "batch_size": 4}).n_rows == 4
    assert parse_options({**urls, "batch_size": 4, "num_concurrent": 1}).n_rows == 1


def test_an_unknown_ability_is_refused(serve, tmp_path):
    with pytest.raises(ConfigError, match=r"'\+fly' is none of \+ or - before prompt_ids"):
        RelayLM(**options(serve(), tmp_path, abilities="+fly"))


def test_check_reaches_both_servers_and_has_each_write(serve, tmp_path):
    from relaygen_lmeval.check.findings import look

    found = {f.name: f for f in look({**options(serve(), tmp_path), "batch_size": 1})}

    assert {f.state for f in found.values()} == {"ok"}, found
    assert "reached" in found["servers"].text
    assert "10 tokens" in found["large model"].text
    assert "10 tokens" in found["small model"].text
