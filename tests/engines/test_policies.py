"""Policies that read probabilities, on the embedded pair: what they measure, and what must hold."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from relaygen_lmeval.core.doubt import entropy
from relaygen_lmeval.core.policy import Move
from relaygen_lmeval.core.types import Judge, Phase, RelayResult, Role, SamplingParams, StopRule
from relaygen_lmeval.engines.local.judge import choice_ids
from relaygen_lmeval.engines.scripted import ScriptedEngine
from relaygen_lmeval.errors import ConfigError

MAX_TOKENS = 200
N = 8
POLICIES: dict[str, dict[str, Any]] = {
    "random": {"share": 0.4},
    "periodic": {"large_tokens": 7, "small_tokens": 9},
    "entropy": {"step": "sentence"},
    "margin": {},
    "speculative_thinking": {"step": "sentence", "words": "Next So", "large_tokens": 12},
    "spec_reason": {"step": "sentence", "judge": "likelihood", "threshold": 0.85},
}


def reasoning(result: RelayResult) -> str:
    return "".join(s.text for s in result.segments if s.phase is Phase.REASONING)


def parts(results: list[RelayResult]) -> list[Any]:
    return [
        (r.text, r.finish, [(s.role, s.token_ids, s.ended_by) for s in r.segments]) for r in results
    ]


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_batch_and_order_change_nothing(make_relay, questions, policy, temperature):
    """Both models write under each policy, alone or among others."""
    sampling = SamplingParams(temperature=temperature, seed=5)
    batched = make_relay(policy=policy, batch_size=N, **POLICIES[policy])
    alone = make_relay(policy=policy, batch_size=1, **POLICIES[policy])
    options: dict[str, Any] = {"max_tokens": MAX_TOKENS, "sampling": sampling}

    together = batched.generate(questions[:N], **options)
    one_by_one = alone.generate(questions[:N], **options)

    assert parts(together) == parts(one_by_one)
    assert all(sum(r.n_tokens_by(role) for r in together) for role in Role)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "always_small", "always_large"),
    [
        ("entropy", {"threshold": 1e9}, {"threshold": 1e-9}),
        ("margin", {"threshold": 1e-9}, {"threshold": 1 - 1e-9}),
        (
            "spec_reason",
            {"judge": "likelihood", "threshold": 0},
            {"judge": "likelihood", "threshold": 1.1},
        ),
    ],
)
def test_thresholds_at_their_ends_leave_one_model(
    make_relay, questions, policy, always_small, always_large
):
    """The large model begins with `<think>`; then one model writes all of the reasoning."""
    asked = questions[:N]
    for role, options in ((Role.SMALL, always_small), (Role.LARGE, always_large)):
        one = make_relay(policy=role.value, batch_size=N).generate(asked, max_tokens=MAX_TOKENS)
        relay = make_relay(policy=policy, step="sentence", batch_size=N, **options)
        both = relay.generate(asked, max_tokens=MAX_TOKENS)
        assert [reasoning(r) for r in both] == [reasoning(r) for r in one]


@pytest.mark.slow
def test_a_score_is_the_probability_the_large_model_gives(make_relay, questions):
    relay = make_relay(policy="spec_reason", **POLICIES["spec_reason"])
    result = relay.generate(questions[:1], max_tokens=MAX_TOKENS)[0]
    model = relay.pair.large.model
    ids = list(result.request.prompts[Role.LARGE].token_ids)
    n_kept = 0
    for step, verdict in zip(result.segments, result.segments[1:], strict=False):
        if verdict.ended_by == "judged" and step.ended_by != "dropped":
            with torch.inference_mode():
                logits = model(torch.tensor([[*ids, *step.token_ids]])).logits[0]
            logprobs = logits[len(ids) - 1 : -1].log_softmax(-1)
            own = logprobs[range(len(step.token_ids)), list(step.token_ids)].mean().exp()
            assert verdict.score == pytest.approx(float(own), abs=1e-4)
            n_kept += 1
        ids += step.token_ids
    assert n_kept > 1


@pytest.mark.slow
def test_doubt_is_where_the_entropy_is_high(make_relay, questions):
    relay = make_relay(policy="entropy", step="sentence")
    model = relay.pair[Role.SMALL].model
    seen = set()
    for result in relay.generate(questions[:4], max_tokens=MAX_TOKENS):
        ids = list(result.request.prompts[Role.SMALL].token_ids)
        for segment in result.segments:
            if segment.role is Role.SMALL and segment.phase is Phase.REASONING:
                with torch.inference_mode():
                    logits = model(torch.tensor([ids])).logits[0, -1]
                found = entropy(logits.log_softmax(-1).topk(20).values.tolist())
                assert (found >= 1.0) == (segment.ended_by == "doubt")
                seen.add(segment.ended_by)
            ids += segment.token_ids
    assert {"doubt", "boundary"} <= seen


def test_a_question_leaves_no_trace_in_the_text(make_relay, questions):
    """All steps kept or dropped by a question that is read in between: the text is one model's."""
    for threshold, role in ((0, Role.SMALL), (10, Role.LARGE)):
        relay = make_relay(policy="spec_reason", step="sentence", threshold=threshold)
        result = relay.generate(questions[:1], max_tokens=MAX_TOKENS)[0]
        one = make_relay(policy=role.value).generate(questions[:1], max_tokens=MAX_TOKENS)[0]

        assert reasoning(result) == reasoning(one)
        scores = {s.score for s in result.segments if s.ended_by == "judged"}
        assert scores
        assert scores <= set(range(10))


def test_a_share_is_taken_from_a_recorded_run(make_relay, questions, tmp_path):
    from relaygen_lmeval.journal import Journal, Label

    recorded = make_relay(policy="relay", batch_size=N).generate(questions[:N], max_tokens=200)
    journal = Journal(tmp_path, {})
    for n, result in enumerate(recorded):
        journal.write(result, Label("t", n))
    relay = make_relay(policy="random", like=str(tmp_path), batch_size=N)

    lengths = {
        role: {s.n_tokens for r in recorded for s in r.segments if s.role is role and s.n_tokens}
        for role in Role
    }
    for result in relay.generate(questions[:N], max_tokens=200):
        for segment in result.segments:
            if segment.ended_by == "bound" and segment.role:
                opening = segment is result.segments[0]  # `<think>` comes on top
                assert segment.n_tokens - opening in lengths[segment.role]


def test_an_engine_that_cannot_refuses_at_start(make_relay, tokenizer):
    with pytest.raises(ConfigError, match="set speculative=off"):
        make_relay(policy="relay", speculative="small")._engines[Role.LARGE].admit(
            Move(Role.LARGE, StopRule(doubt=_doubt()))
        )
    with pytest.raises(ConfigError, match="no probabilities"):
        ScriptedEngine([]).admit(Move(Role.LARGE, judge=Judge()))
    with pytest.raises(ConfigError, match="set judge=likelihood"):
        choice_ids(tokenizer, Judge("?", ("10", "11")))


def _doubt() -> Any:
    from relaygen_lmeval.core.types import Doubt

    return Doubt("margin", 0.5)
