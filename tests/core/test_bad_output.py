"""Models that write what no model should: every text is bounded, and flagged where that tells."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, count, cycle, repeat

import pytest

from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.policies import RelayGen
from relaygen_lmeval.core.repeats import repeats
from relaygen_lmeval.core.types import Piece, RelayRequest, RelayResult, Role
from relaygen_lmeval.engines.scripted import EOS, ScriptedEngine
from relaygen_lmeval.runner import relay_one

POLICY = RelayGen(cues=CueTable(("So",)), min_large_tokens=5, max_small_tokens=16)
PLAIN = RelayRequest(0, dict.fromkeys(Role, Piece("Q", (1,))), max_tokens=400)
THINKING = replace(
    PLAIN, thinks=True, max_answer_tokens=100, closing=Piece("\n</think>\n\n", (7, 8, 9))
)
FLAGGED = ("repeats", "reasoning_closed")


def relayed(
    large: Iterator[str], small: Iterator[str], request: RelayRequest = THINKING
) -> RelayResult:
    """Each model writes on and on, whatever it is asked."""
    scripts = {Role.LARGE: large, Role.SMALL: small}
    engine = ScriptedEngine(lambda turn: scripts[turn.role])
    result = asyncio.run(relay_one(request, POLICY, dict.fromkeys(Role, engine)))
    assert result.n_tokens <= request.max_tokens
    return result


def words(start: str = " w") -> Iterator[str]:
    """Never the same, and never the end of a sentence."""
    return (f"{start}{n}x" for n in count())


def test_a_small_model_that_never_ends_a_sentence_hands_back_at_its_bound():
    result = relayed(cycle([" a", " b", " c", " d", " So"]), words())

    small = [s for s in result.segments if s.role is Role.SMALL]
    assert len(small) > 5
    assert all(s.n_tokens <= 16 for s in small[:-1])  # the last is the answer
    assert {s.ended_by for s in small[:3]} == {"bound"}


def test_a_large_model_that_never_writes_a_cue_writes_all_of_the_reasoning():
    result = relayed(words(), words())

    assert [s.role for s in result.segments] == [Role.LARGE, None, Role.SMALL]
    assert result.segments[0].n_tokens == THINKING.reasoning_budget
    assert result.flags == ("reasoning_closed", "truncated")


def test_a_cue_at_every_token_waits_for_some_tokens_of_the_large_model():
    result = relayed(repeat(" So"), cycle([" it", " is", "."]))

    large = [s for s in result.segments if s.role is Role.LARGE]
    assert all(s.n_tokens >= POLICY.min_large_tokens for s in large[:-1])
    assert len(result.segments) <= 2 * 400 / POLICY.min_large_tokens


@pytest.mark.parametrize("piece", [" 7", "<|pad|>", "", "\ufffd"])
def test_one_token_for_ever_is_bounded_and_flagged(piece):
    """Special tokens and tokens without a text, too."""
    result = relayed(repeat(piece), words())

    assert result.flags[:2] == FLAGGED
    assert result.segments[0].n_tokens == THINKING.reasoning_budget


def test_an_answer_that_repeats_is_flagged_too_and_once():
    one = relayed(words(), cycle([" yes", " no"]))
    both = relayed(repeat(" 7"), repeat(" 7"))

    assert one.flags == ("reasoning_closed", "repeats", "truncated")
    assert both.flags == (*FLAGGED, "truncated")


def test_a_relay_that_goes_in_circles_between_two_models_is_flagged():
    result = relayed(cycle([" a", " b", " c", " d", " So"]), cycle([" it", "."]))

    assert {s.role for s in result.segments} >= set(Role)
    assert "repeats" in result.flags


def test_what_ends_by_itself_is_not_flagged():
    result = relayed(chain(repeat(" 7", 200), ["</think>"]), iter([" 14", EOS]))

    assert result.flags == ()
    assert result.finish == "eos"


@pytest.mark.parametrize("request_", [PLAIN, THINKING], ids=["plain", "thinking"])
def test_models_that_end_at_once_leave_an_empty_answer(request_):
    result = relayed(repeat(EOS), repeat(EOS), request_)

    assert result.n_tokens == len(request_.closing.token_ids)
    assert result.answer == ""


@pytest.mark.parametrize("n", [1, 2, 31, 32])
def test_cycles_are_found_up_to_a_length_and_not_before_some_rounds(n):
    cycle_ = list(range(n))
    n_rounds = -(-max(48, 4 * n) // n)

    assert repeats([99, 98, *cycle_ * n_rounds])
    assert not repeats([99, 98, *cycle_ * (n_rounds - 1)])
    assert not repeats([*cycle_ * n_rounds, 99])
