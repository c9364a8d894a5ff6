"""The Python face on the embedded pair: what must hold of every relayed text."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from lm_eval.api.instance import Instance

from relaygen_lmeval.core.types import Phase, RelayResult, Role, SamplingParams
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.models.pair import Pair
from relaygen_lmeval.relay import Relay

MAX_TOKENS = 300


def run(
    relay: Relay, questions: list[str], sampling: SamplingParams = SamplingParams()
) -> list[RelayResult]:
    return relay.generate(questions, max_tokens=MAX_TOKENS, sampling=sampling)


def texts(results: list[RelayResult]) -> list[str]:
    return [result.text for result in results]


def token_ids(result: RelayResult) -> list[int]:
    return [i for segment in result.segments for i in segment.token_ids]


@pytest.fixture(scope="module")
def stock(pair: Pair, questions: list[str]) -> list[str]:
    """What stock `hf` writes greedily."""
    kwargs = {"do_sample": False, "max_gen_toks": MAX_TOKENS, "until": []}
    prompts = [
        pair.large.apply_chat_template([{"role": "user", "content": question}])
        for question in questions
    ]
    pair.large.batch_size_per_gpu = 16
    requests = [Instance("generate_until", {}, (p, dict(kwargs)), 0) for p in prompts]
    written: list[str] = pair.large.generate_until(requests, disable_tqdm=True)
    return written


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 8])
def test_large_alone_equals_stock_hf(make_relay, questions, stock, batch_size):
    assert texts(run(make_relay(policy="large", batch_size=batch_size), questions)) == stock


@pytest.mark.slow
def test_the_order_of_requests_changes_no_text(make_relay, questions, stock):
    order = random.Random(0).sample(range(len(questions)), len(questions))
    relay = make_relay(policy="large", batch_size=8)

    shuffled = texts(run(relay, [questions[i] for i in order]))

    assert shuffled == [stock[i] for i in order]


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 8])
def test_a_relay_of_one_model_with_itself_equals_stock_hf(
    make_relay, same_pair, questions, stock, batch_size
):
    results = run(make_relay(same_pair, batch_size=batch_size), questions)

    assert texts(results) == stock
    assert sum(len(result.segments) for result in results) > 4 * len(results)


@pytest.mark.slow
def test_every_segment_is_what_its_model_would_have_chosen(make_relay, pair, questions):
    """Teacher-forced replay: a fresh forward over the whole text agrees, token by token."""
    results = run(make_relay(batch_size=8), questions[:30])
    for result in results:
        prompt = list(result.request.prompts[Role.LARGE].token_ids)
        ids = prompt + token_ids(result)
        chosen = {role: _choices(pair[role].model, ids) for role in Role}
        position = len(prompt)
        for segment in result.segments:
            end = position + segment.n_tokens
            if segment.role is not None:
                assert ids[position:end] == chosen[segment.role][position:end]
            position = end


def _choices(model: Any, ids: list[int]) -> list[int]:
    """At each position, the token the model prefers there given all before it."""
    with torch.inference_mode():
        logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    return [-1, *logits.argmax(-1).tolist()]


def test_both_models_write_and_all_is_accounted_for(make_relay, questions):
    results = run(make_relay(batch_size=4), questions[:8])
    for result in results:
        assert sum(segment.n_tokens for segment in result.segments) == result.n_tokens
        assert result.n_tokens <= MAX_TOKENS
        for segment in result.segments:
            assert len(segment.timing.stamps_s) == segment.n_tokens
        assert result.segments[0].role is Role.LARGE
        assert result.started_s < result.ended_s
    assert sum(result.n_tokens_by(Role.SMALL) for result in results) > 0


def test_large_segments_end_at_cues_and_small_ones_at_sentences(make_relay, questions):
    reasons: dict[Role | None, set[str]] = {role: set() for role in (*Role, None)}
    for result in run(make_relay(batch_size=4), questions[:8]):
        for segment in result.segments:
            if segment.phase is Phase.REASONING:
                reasons[segment.role].add(segment.ended_by)

    assert reasons[Role.LARGE] <= {"cue", "think_end", "length"}
    assert reasons[Role.SMALL] <= {"boundary", "bound", "think_end", "eos"}


SAMPLED = SamplingParams(temperature=0.9, top_p=0.95, top_k=20, min_p=0.01, seed=5)


def test_a_sampled_run_repeats_itself_at_any_batch_size_and_order(make_relay, questions):
    questions = questions[:12]
    relay = make_relay(policy="relay", batch_size=1)
    requests = [
        relay.requests.make(
            i,
            relay.requests.template(q),
            max_tokens=MAX_TOKENS,
            sampling=replace(SAMPLED, seed=SAMPLED.seed + i),
        )
        for i, q in enumerate(questions)
    ]
    alone = texts(relay.run(requests))

    assert alone != texts(relay.generate(questions, max_tokens=MAX_TOKENS))
    assert texts(make_relay(batch_size=8).run(requests)) == alone
    shuffled = random.Random(1).sample(requests, len(requests))
    again = {r.request.seq_id: r.text for r in make_relay(batch_size=8).run(shuffled)}
    assert [again[i] for i in range(len(requests))] == alone


def test_a_repetition_penalty_equals_stock_generate(make_relay, pair, questions):
    relay = make_relay(policy="large")
    prompt = relay.requests.template(questions[0])
    ids = pair.large.tokenizer(prompt, return_tensors="pt").input_ids
    wanted = pair.large.model.generate(
        ids, max_new_tokens=60, do_sample=False, repetition_penalty=1.3, pad_token_id=0
    )[0, ids.shape[1] :].tolist()

    result = relay.generate(
        questions[:1], max_tokens=60, sampling=SamplingParams(repetition_penalty=1.3)
    )[0]

    reasoning = list(result.segments[0].token_ids)  # the rest of the 60 is kept for the answer
    assert len(reasoning) > 35
    assert reasoning == wanted[: len(reasoning)]


def test_an_unfinished_reasoning_is_closed_answered_and_flagged(make_relay, questions):
    relay = make_relay(policy="large", max_answer_toks=40)

    result = relay.generate(questions[:1], max_tokens=70)[0]

    assert "reasoning_closed" in result.flags
    assert [s.ended_by for s in result.segments][:2] == ["length", "closed"]
    assert result.n_tokens <= 70
    assert "</think>" not in result.answer
    assert result.answer == result.answer.lstrip()


def test_until_stops_the_answer_and_not_the_reasoning(make_relay, questions):
    relay = make_relay(policy="large")
    whole = relay.generate(questions[:1], max_tokens=MAX_TOKENS)[0]
    assert "\n" in whole.text.split("</think>")[0]

    cut = relay.generate(questions[:1], max_tokens=MAX_TOKENS, until=("\n", "boxed"))[0]

    assert cut.text.split("</think>")[0] == whole.text.split("</think>")[0]
    assert cut.finish == "until"
    assert cut.answer.endswith("boxed")


def test_without_thinking_the_answer_comes_at_once(make_relay):
    relay = make_relay(policy="large", think_end_token=None)
    prompt = relay.requests.template("What is 2 + 2?") + "<think>\n\n</think>\n\n"

    request = relay.requests.make(0, prompt, max_tokens=50)

    assert request.thinks is False
    assert request.max_answer_tokens == 0


@pytest.mark.parametrize(
    ("prompt", "wanted"),
    [("Q", None), ("Q<think>\n", True), ("Q<think>\n\n</think>\n\n", False)],
)
def test_the_prompt_says_whether_the_reasoning_is_open(make_relay, prompt, wanted):
    assert make_relay(policy="large").requests.make(0, prompt).thinks is wanted


def test_a_named_end_of_thinking_means_that_the_model_thinks(make_relay, pair):
    token = pair.large.tokenizer.convert_tokens_to_ids("</think>")
    for mark in ("</think>", token):
        relay = make_relay(policy="large", think_end_token=mark)
        assert relay.requests.make(0, "Q").thinks is True
        assert relay.requests.think_end == "</think>"


def test_a_thinking_model_is_not_cut_at_256(make_relay, pair):
    request = make_relay(policy="large").requests.make(0, "Q")

    assert request.max_tokens > 0.9 * pair.large.max_length
    assert 1000 < request.max_answer_tokens <= 1024


def test_a_prompt_that_is_too_long_loses_its_beginning(make_relay, pair, caplog):
    prompt = "Ana has 12 books. " * 2000
    relay = make_relay(policy="large")

    request = relay.requests.make(0, prompt, max_tokens=100)

    ids = request.prompts[Role.LARGE].token_ids
    assert len(ids) == pair.large.max_length - 100
    assert list(ids) == pair.large.tok_encode(prompt)[-len(ids) :]
    assert "is cut to its last" in caplog.text


def test_an_empty_prompt_begins_with_the_models_first_token(make_relay, pair):
    relay = make_relay(policy="large")

    request = relay.requests.make(0, "", max_tokens=20)

    assert request.prompts[Role.LARGE].token_ids == (pair.large.prefix_token_id,)
    assert 0 < relay.run([request])[0].n_tokens <= 20


def test_no_prompts_give_no_results(make_relay):
    assert make_relay().generate([]) == []


def test_an_answer_that_leaves_no_room_for_the_reasoning(make_relay):
    with pytest.raises(ConfigError, match="max_gen_toks=20 is too little"):
        make_relay(max_answer_toks=40).requests.make(0, "Q", max_tokens=20)


def test_a_budget_beyond_the_models_length_is_lowered_with_a_warning(make_relay, pair, caplog):
    relay = make_relay(policy="large")

    requests = [relay.requests.make(i, "What is 2 + 2?", max_tokens=32_768) for i in range(2)]

    for request in requests:
        n_prompt = len(request.prompts[Role.LARGE].token_ids)
        assert request.max_tokens + n_prompt == pair.large.max_length
    assert caplog.text.count("does not fit into max_length") == 1


def test_in_a_running_event_loop(make_relay, questions):
    """As in a notebook."""
    import asyncio

    async def cell() -> int:
        return int(make_relay().generate(questions[:1], max_tokens=20)[0].n_tokens)

    assert asyncio.run(cell()) <= 20
