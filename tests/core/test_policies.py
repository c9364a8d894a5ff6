"""Who writes next under each policy, from plain values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relaygen_lmeval.core.doubt import Watch, entropy, margin
from relaygen_lmeval.core.policies import (
    POLICIES,
    Entropy,
    Margin,
    Periodic,
    RandomHandoffs,
    SpecReason,
    SpeculativeThinking,
)
from relaygen_lmeval.core.policy import Policy
from relaygen_lmeval.core.relay import advance, begin, next_turn, segments
from relaygen_lmeval.core.types import (
    Chunk,
    Doubt,
    EndedBy,
    Phase,
    Piece,
    RelayRequest,
    RelayState,
    Role,
    SamplingParams,
    Turn,
)

REQUEST = RelayRequest(
    0,
    dict.fromkeys(Role, Piece("Q", (1,))),
    max_tokens=1000,
    max_answer_tokens=10,
    thinks=True,
    closing=Piece("</think>", (7,)),
)


def turn_of(state: RelayState, policy: Policy) -> Turn:
    turn = next_turn(state, policy)
    assert turn is not None
    return turn


def write(
    state: RelayState,
    policy: Policy,
    ended_by: EndedBy,
    n: int = 3,
    score: float | None = None,
) -> RelayState:
    turn = turn_of(state, policy)
    n = min(n, turn.max_tokens)
    chunk = Chunk(turn.role, turn.phase, "x" * n, (5,) * n, n, ended_by, score=score)
    return advance(state, chunk, policy)


def writers(policy: Policy, *ended_by: EndedBy, n: int = 3) -> str:
    """Who is asked, turn after turn, where they end like that: `L` or `S`."""
    state, who = begin(REQUEST, policy), ""
    for reason in ended_by:
        who += turn_of(state, policy).role.value[0].upper()
        state = write(state, policy, reason, n)
    return who + turn_of(state, policy).role.value[0].upper()


def test_periodic_takes_turns_of_so_many_tokens():
    policy = Periodic(large_tokens=4, small_tokens=7)

    assert writers(policy, "length", "length", "length", n=99) == "LSLS"
    state = begin(REQUEST, policy)
    assert turn_of(state, policy).max_tokens == 4
    assert turn_of(write(state, policy, "length", 4), policy).max_tokens == 7


def lengths(policy: Policy, seed: int, n: int = 60) -> list[int]:
    request = replace(REQUEST, sampling=SamplingParams(seed=seed), max_tokens=100_000)
    state, found = begin(request, policy), []
    for _ in range(n):
        found.append(turn_of(state, policy).max_tokens)
        state = write(state, policy, "length", found[-1])
    return found


def test_random_handoffs_have_the_share_that_is_asked_for():
    """3,000 geometric lengths each: the share strays by more than 0.05 once in 10^7."""
    policy = RandomHandoffs(share=0.3, small_tokens=20)
    drawn = [lengths(policy, seed) for seed in range(100)]
    large, small = (sum(sum(found[k::2]) for found in drawn) for k in (0, 1))

    assert large / (large + small) == pytest.approx(0.3, abs=0.05)
    assert small / 3000 == pytest.approx(20, rel=0.1)


def test_random_handoffs_repeat_by_seed_and_follow_a_recorded_run():
    policy = RandomHandoffs(large_lengths=(3, 5), small_lengths=(8, 9))

    assert lengths(policy, 1) == lengths(policy, 1) != lengths(policy, 2)
    assert set(lengths(policy, 1)[::2]) == {3, 5}
    assert set(lengths(policy, 1)[1::2]) == {8, 9}


@pytest.mark.parametrize("policy", [Entropy(), Margin()])
def test_a_doubtful_step_is_the_large_models(policy):
    assert writers(policy, "boundary", "doubt", "boundary", "boundary") == "SSLSS"
    assert turn_of(begin(REQUEST, policy), policy).rule.doubt is not None
    assert policy.kinds()


def test_speculative_thinking_brings_the_large_model_in_for_a_while():
    policy = SpeculativeThinking(large_tokens=9, words="Wait Hmm")

    assert policy.openers.cues == ("\n\nWait", "\n\nHmm")
    assert writers(policy, "cue", "length", "cue", n=9) == "SLSL"
    assert turn_of(write(begin(REQUEST, policy), policy, "cue"), policy).max_tokens == 9


def test_a_good_step_is_kept():
    policy = SpecReason()
    state = write(begin(REQUEST, policy), policy, "boundary")

    assert state.n_tokens == 0
    turn = turn_of(state, policy)
    assert (turn.role, turn.step) == (Role.LARGE, state.on_trial)
    assert turn.judge is not None

    state = write(state, policy, "judged", 0, score=7.0)

    assert state.n_tokens == 3
    assert state.on_trial is None
    assert turn_of(state, policy).role is Role.SMALL
    assert [s.ended_by for s in segments(state.chunks)] == ["boundary", "judged"]


def test_a_poor_step_is_given_back_and_written_anew():
    policy = SpecReason()
    state = write(begin(REQUEST, policy), policy, "boundary")
    state = write(state, policy, "judged", 0, score=6.0)

    assert state.n_tokens == 0
    assert turn_of(state, policy).role is Role.LARGE
    dropped, verdict = segments(state.chunks)
    assert (dropped.ended_by, dropped.text, dropped.timing.given_back_tokens) == ("dropped", "", 3)
    assert (verdict.role, verdict.score) == (Role.LARGE, 6.0)
    state = write(state, policy, "boundary")
    assert turn_of(state, policy).role is Role.SMALL


def test_a_step_that_ends_the_thinking_is_judged_too():
    policy = SpecReason()
    tried = write(begin(REQUEST, policy), policy, "think_end")

    assert write(tried, policy, "judged", 0, score=9.0).phase is Phase.ANSWER
    assert write(tried, policy, "judged", 0, score=0.0).phase is Phase.REASONING


def test_two_models_with_nothing_to_say_end_the_reasoning():
    class Stuck(Periodic):
        def move(self, state):
            return replace(super().move(state), role=Role.SMALL)

    policy = Stuck()
    state = write(begin(REQUEST, policy), policy, "eos", 0)
    assert state.phase is Phase.REASONING

    state = write(state, policy, "eos", 0)
    assert state.flags == ("reasoning_closed",)


def test_no_text_passes_its_budget_under_any_policy():
    for name, kind in POLICIES.items():
        if name in ("relay", "all_cues"):
            continue  # they need cues: test_relay.py
        policy = kind()
        state = begin(REQUEST, policy)
        for _ in range(2000):
            turn = next_turn(state, policy)
            if turn is None:
                break
            score = 9.0 if turn.judge else None
            n, reason = (0, "judged") if turn.judge else (turn.max_tokens, "length")
            state = write(state, policy, reason, n, score)  # type: ignore[arg-type]
        assert state.finish == "length", name
        assert state.n_tokens == REQUEST.max_tokens, name


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (Periodic, {"large_tokens": 0}, "large_tokens=0 must be a whole number"),
        (RandomHandoffs, {"share": 1.0}, "share=1.0 must be a number between 0 and 1"),
        (Margin, {"threshold": 2}, "threshold=2 must be"),
        (Margin, {"window": 0}, "window=0 must be"),
        (Entropy, {"step": "word"}, "step=word is not one of sentence, paragraph"),
        (Entropy, {"threshold": "high"}, "threshold=high must be a number"),
        (SpecReason, {"judge": "me"}, "judge=me is not one of"),
        (SpecReason, {"threshold": "x"}, "threshold=x must be a number"),
        (SpeculativeThinking, {"words": " "}, "names no word"),
        (SpeculativeThinking, {"words": 5}, "names no word"),
    ],
)
def test_wrong_values_are_refused(kind, options, said):
    with pytest.raises(ValueError, match=said):
        kind(**options)


def test_measures_of_doubt():
    assert entropy([0.0]) == 0.0
    assert margin([0.0]) == 1.0
    first = Watch(Doubt("margin", 0.9, first_only=True))
    assert [first.doubts([-1.0, -1.1]) for _ in range(2)] == [True, False]
