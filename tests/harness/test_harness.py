"""`RelayLM` as the harness calls it, on the embedded pair."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import CachingLM
from lm_eval.api.registry import get_model

from relaygen_lmeval.core.types import Role
from relaygen_lmeval.errors import ConfigError, CueFileError, EngineError, JournalError
from relaygen_lmeval.harness.model import RelayLM
from relaygen_lmeval.journal import read_journal

GREEDY = {"until": [], "max_gen_toks": 250}


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayLM]:
    made = RelayLM(batch_size="4", log_dir=str(tmp_path_factory.mktemp("logs")))
    yield made
    made.close()


def instance(lm: RelayLM, question: str, doc_id: int = 0, **kwargs: Any) -> Instance:
    prompt = lm.apply_chat_template([{"role": "user", "content": question}])
    request = Instance("generate_until", {}, (prompt, {**GREEDY, **kwargs}), 0)
    request.task_name, request.doc_id = "task", doc_id
    return request


def records(lm: RelayLM) -> list[dict[str, Any]]:
    return [r for r in read_journal(lm.run.journal.path) if r["kind"] == "request"]


def test_the_entry_point_and_the_registry_name_one_class():
    assert get_model("relaygen") is RelayLM
    assert get_model("dummy").__name__ == "DummyLM"


def test_the_reasoning_is_gone_and_the_order_kept(lm, questions):
    requests = [instance(lm, question, i) for i, question in enumerate(questions[:6])]

    texts = lm.generate_until(requests, disable_tqdm=True)

    assert len(texts) == 6
    assert not any("<think>" in text or "</think>" in text for text in texts)
    alone = [lm.generate_until([request], disable_tqdm=True)[0] for request in requests]
    assert alone == texts


def test_zero_requests(lm):
    assert lm.generate_until([]) == []


def test_repeats_are_the_same_object_and_get_seeds_of_their_own(lm, questions):
    request = instance(lm, questions[0], temperature=1.0, do_sample=True)
    before = len(records(lm))

    texts = lm.generate_until([request] * 3, disable_tqdm=True)
    again = lm.generate_until([request] * 3, disable_tqdm=True)

    assert texts == again
    new = records(lm)[before : before + 3]
    assert sorted(r["repeat"] for r in new) == [0, 1, 2]
    assert len({r["seed"] for r in new}) == 3
    assert len({r["text"] for r in new}) == 3


def test_different_settings_in_one_call(lm, questions):
    requests = [
        instance(lm, questions[0]),
        instance(lm, questions[0], until=["boxed"]),
        instance(lm, questions[0], max_gen_toks=60),
        instance(lm, questions[0], temperature=0.0, do_sample=True),
    ]

    n_before = len(records(lm))
    whole, stopped, _, zero = lm.generate_until(requests, disable_tqdm=True)

    assert stopped == whole.split("boxed")[0]
    assert zero == whole
    [short] = [r for r in records(lm)[n_before:] if r["max_tokens"] == 60]
    assert short["n_tokens"] <= 60
    assert short["flags"] == ["reasoning_closed"]


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"num_beams": 4}, "num_beams=4 is not supported"),
        ({"typical_p": 0.9}, "typical_p=0.9 is not supported"),
        ({"max_gen_toks": 5}, "task 'task', document 5: max_gen_toks=5 is too little"),
    ],
)
def test_settings_that_cannot_be_followed_name_the_request(lm, questions, kwargs, said):
    with pytest.raises(ConfigError, match=said):
        lm.generate_until([instance(lm, questions[0], 5, **kwargs)])


def test_neutral_settings_of_other_decoders_pass(lm, questions):
    request = instance(lm, questions[0], num_beams=1, use_cache=True, top_p=None, max_gen_toks=40)

    assert len(lm.generate_until([request], disable_tqdm=True)) == 1


def test_loglikelihoods_are_the_large_models_own(lm):
    request = Instance("loglikelihood", {}, ("Ana has 12 books. So,", " Ana has 12 books."), 0)

    [(logprob, greedy)] = lm.loglikelihood([request], disable_tqdm=True)

    large = lm.relay.pair.large
    context, whole = (large.tok_encode(t) for t in (request.args[0], "".join(request.args)))
    with torch.inference_mode():
        logprobs = large.model(torch.tensor([whole])).logits[0].log_softmax(-1)
    by_hand = sum(float(logprobs[i - 1, whole[i]]) for i in range(len(context), len(whole)))
    assert logprob == pytest.approx(by_hand, abs=1e-3)
    assert isinstance(greedy, bool)


def test_a_cache_is_filled_under_the_original_settings(lm, questions, tmp_path):
    cached = CachingLM(lm, str(tmp_path / "cache.db"))
    request = instance(lm, questions[0], max_gen_toks=60)
    n_before = len(records(lm))

    first = cached.generate_until([request])
    second = cached.generate_until([request])

    assert first == second
    assert len(records(lm)) == n_before + 1
    lm.set_cache_hook(type(lm.cache_hook)(None))


def test_the_header_and_the_model_info_are_complete(lm):
    info = json.loads(json.dumps(lm.get_model_info(), default=str))
    header = next(read_journal(lm.run.journal.path))

    assert info["model_num_parameters"] > 0
    assert [model["role"] for model in info["relay"]["models"]] == ["large", "small"]
    for model in info["relay"]["models"]:
        assert model["num_parameters"] > 0
        assert model["dtype"] == "torch.float32"
        assert model["sha"].startswith("local-")
    assert header["cues"]["sha256"] == info["relay"]["cues"]["sha256"]
    assert header["config"]["batch_size"] == 4
    assert header["handover"] == "token_ids"
    assert {"relaygen-lmeval", "torch", "lm_eval"} <= header["versions"].keys()
    assert info["relay"]["totals"]["task"]["n"] == len(records(lm))


def test_a_failure_keeps_what_was_finished(lm, questions, monkeypatch):
    """NaN logits in the middle: the request is named, finished ones are in the journal."""
    model = lm.relay.pair.large.model
    forward, calls = model.forward, iter(range(10_000))

    def failing(*args: Any, **kwargs: Any) -> Any:
        output = forward(*args, **kwargs)
        if next(calls) > 150:
            output.logits = output.logits * float("nan")
        return output

    n_before = len(records(lm))
    monkeypatch.setattr(model, "forward", failing)
    with pytest.raises(
        EngineError, match=r"request \d+, large model: .* not finite .*float32.* of 40 finished"
    ):
        lm.generate_until([instance(lm, q, i) for i, q in enumerate(questions[:40])], True)
    monkeypatch.undo()

    last = list(read_journal(lm.run.journal.path))[-1]
    assert last["kind"] == "failure"
    assert 0 < len(records(lm)) - n_before < 40
    assert lm.generate_until([instance(lm, questions[0])], disable_tqdm=True)[0]


def test_out_of_memory_says_what_to_lower(lm, questions, monkeypatch):
    def failing(*args: Any, **kwargs: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(lm.relay.pair.large.model, "forward", failing)
    with pytest.raises(
        EngineError, match=r"request 0, large model: out of memory .* lower max_gen_toks"
    ):
        lm.generate_until([instance(lm, questions[0])], disable_tqdm=True)


def test_labels_of_a_plain_instance():
    from relaygen_lmeval.harness.instances import labels_of

    request = Instance("generate_until", {}, ("x", {}), 0)

    first, second = labels_of([request, request])

    assert (first.task, first.doc_id) == ("", 0)
    assert second == replace(first, repeat=1)


def test_another_document_has_another_hash():
    from relaygen_lmeval.harness.instances import label_of

    hashes = [label_of(Instance("generate_until", {"q": q}, ("x", {}), 0)).doc_hash for q in "aab"]

    assert hashes[0] == hashes[1] != hashes[2]


def model_folder(tmp_path: Path, config: dict[str, Any]) -> str:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    return str(tmp_path / "model")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "t5", "is_encoder_decoder": True}, "is an encoder-decoder"),
        (
            {"model_type": "bert", "architectures": ["BertForMaskedLM"]},
            "does not generate text",
        ),
        ({"architectures": ["X"]}, "has no readable configuration"),
    ],
)
def test_models_that_cannot_relay_are_refused_before_their_weights(tmp_path, config, said):
    folder = model_folder(tmp_path, config)

    with pytest.raises(ConfigError, match=said):
        RelayLM(pretrained=folder, small=folder, log_dir=str(tmp_path / "log"))


@pytest.mark.parametrize(
    ("content", "said"),
    [("not json", "is not JSON"), ('{"schema": 1}', "has no"), (None, "unknown cue file")],
)
def test_cue_files_are_refused_before_models_are_loaded(tmp_path, content, said):
    path = tmp_path / "cues.json"
    if content is not None:
        path.write_text(content)

    with pytest.raises(CueFileError, match=said):
        RelayLM(cues=str(path))


def test_an_unwritable_log_folder_is_refused_before_models_are_loaded(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("relaygen_lmeval.relay.make_pair", lambda config: pytest.fail("loaded"))

    with pytest.raises(JournalError, match="log_dir="):
        RelayLM(log_dir=str(tmp_path / "file" / "log"))


def test_swapped_models_are_warned_about(tmp_path, caplog):
    from relaygen_lmeval.demo import demo_path

    lm = RelayLM(
        pretrained=str(demo_path() / "small"),
        small=str(demo_path() / "large"),
        cues="demo",
        log_dir=str(tmp_path),
    )
    lm.close()

    assert "are they swapped?" in caplog.text


def test_roles_have_partners():
    assert Role.LARGE.other is Role.SMALL
