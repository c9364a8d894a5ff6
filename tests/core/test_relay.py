"""The two functions: who writes next, and what follows from what was written."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.policies import Large, RelayGen, Small
from relaygen_lmeval.core.policy import Policy
from relaygen_lmeval.core.relay import advance, begin, next_turn
from relaygen_lmeval.core.types import (
    Chunk,
    EndedBy,
    Phase,
    Piece,
    RelayRequest,
    RelayResult,
    RelayState,
    Role,
)
from relaygen_lmeval.engines.scripted import EOS, ScriptedEngine
from relaygen_lmeval.runner import relay_one

CUES = CueTable(("So,",))
RELAY = RelayGen(cues=CUES, min_large_tokens=0, max_small_tokens=4)
PLAIN = RelayRequest(0, dict.fromkeys(Role, Piece("Q", (1,))), max_tokens=40)
THINKING = replace(
    PLAIN, thinks=True, max_answer_tokens=10, closing=Piece("\n</think>\n\n", (7, 8, 9))
)


def write(state: RelayState, policy: Policy, ended_by: EndedBy, n: int = 3) -> RelayState:
    """Whoever is asked writes `n` tokens and ends like that."""
    turn = next_turn(state, policy)
    assert turn is not None
    assert n <= turn.max_tokens
    chunk = Chunk(turn.role, turn.phase, "x" * n, tuple(range(n)), n, ended_by)
    return advance(state, chunk, policy)


def asked(state: RelayState, policy: Policy = RELAY) -> Role:
    turn = next_turn(state, policy)
    assert turn is not None
    return turn.role


def relayed(
    large: list[str], small: list[str], request: RelayRequest, policy: Policy = RELAY
) -> RelayResult:
    engines = {Role.LARGE: ScriptedEngine(large), Role.SMALL: ScriptedEngine(small)}
    return asyncio.run(relay_one(request, policy, engines))


def test_a_cue_hands_over_and_a_boundary_hands_back():
    state = begin(PLAIN, RELAY)
    assert asked(state) is Role.LARGE

    state = write(state, RELAY, "cue")
    assert asked(state) is Role.SMALL

    state = write(state, RELAY, "boundary")
    assert asked(state) is Role.LARGE


def test_a_small_segment_is_bounded():
    state = write(begin(PLAIN, RELAY), RELAY, "cue")
    turn = next_turn(state, RELAY)
    assert turn is not None
    assert turn.max_tokens == 4

    state = write(state, RELAY, "length", 4)

    assert asked(state) is Role.LARGE
    assert state.chunks[-1].ended_by == "bound"


def test_the_small_model_may_not_end_a_relayed_text():
    state = write(write(begin(PLAIN, RELAY), RELAY, "cue"), RELAY, "eos", 0)

    assert state.finish is None
    assert asked(state) is Role.LARGE


def test_the_end_of_thinking_goes_to_who_answers():
    for role in Role:
        policy = RelayGen(cues=CUES, answer_by=role)
        state = write(begin(THINKING, policy), policy, "think_end")

        assert (state.phase, asked(state, policy)) == (Phase.ANSWER, role)


def test_until_is_asked_for_in_the_answer_alone():
    request = replace(THINKING, until=("\n\n",))
    reasoning = begin(request, RELAY)
    answer = write(reasoning, RELAY, "think_end")
    turns = [next_turn(state, RELAY) for state in (reasoning, answer)]

    assert [turn.rule.literals for turn in turns if turn] == [("</think>",), ("\n\n",)]


def test_a_spent_reasoning_is_closed_and_answered():
    state = begin(THINKING, RELAY)
    turn = next_turn(state, RELAY)
    assert turn is not None
    assert turn.max_tokens == 40 - 10 - 3

    state = write(state, RELAY, "length", 27)

    assert state.flags == ("reasoning_closed",)
    assert state.phase is Phase.ANSWER
    assert state.chunks[-1].text == "\n</think>\n\n"
    assert state.chunks[-1].role is None
    last = next_turn(state, RELAY)
    assert last is not None
    assert last.max_tokens == 10


def test_a_reasoning_that_just_ends_is_closed_and_answered():
    state = write(begin(THINKING, RELAY), RELAY, "eos")

    assert state.flags == ("reasoning_closed",)
    assert state.finish is None


def test_a_text_never_passes_its_budget():
    result = relayed(["So,", "x"] * 40, ["y"] * 40, PLAIN)

    assert result.n_tokens == 40
    assert result.finish == "length"
    assert result.flags == ("truncated",)


def test_a_relay_of_two_scripts():
    result = relayed(
        ["<think>", "First.", " So,", " Next.", "</think>"],
        [" it is", " 21", ".", "\n", "The", " answer", EOS],  # the newline is given back
        replace(THINKING, thinks=None),
    )

    assert result.text == "<think>First. So, it is 21. Next.</think>\nThe answer"
    assert result.answer == "\nThe answer"
    assert [(s.role, s.ended_by) for s in result.segments] == [
        (Role.LARGE, "cue"),
        (Role.SMALL, "boundary"),
        (Role.LARGE, "think_end"),
        (Role.SMALL, "eos"),
    ]
    assert sum(s.n_tokens for s in result.segments) == result.n_tokens


def test_a_model_that_does_not_open_a_reasoning_is_stopped_by_until():
    request = replace(THINKING, thinks=None, until=("\n\n",))

    result = relayed(["The", " end", "\n\n", "more"], [], request, Large())

    assert result.text == "The end\n\n"
    assert result.finish == "until"


def test_until_within_the_first_words_counts_too():
    request = replace(THINKING, thinks=None, until=("\n",))

    result = relayed(["\nThe", " end"], [], request, Large())

    assert (result.text, result.finish) == ("\nThe", "until")


def test_a_stop_that_spans_two_writers_is_found():
    request = replace(PLAIN, until=(". Q:",))

    result = relayed([" So,", " Q:", " more"], [" x", ".", " "], request)

    assert result.finish == "until"
    assert result.text.endswith(". Q:")


def test_policies_ask_only_their_models():
    assert Large().roles == {Role.LARGE}
    assert Small().roles == {Role.SMALL}
    assert RELAY.roles == set(Role)


def test_one_model_in_a_row_is_one_segment():
    """The turn that finds out whether the model thinks begins no segment of its own."""
    request = replace(THINKING, thinks=None)

    result = relayed(["<think>", "a", "</think>", "b", EOS], [], request, Large())

    assert [(s.phase, s.n_tokens) for s in result.segments] == [
        (Phase.REASONING, 3),
        (Phase.ANSWER, 1),
    ]
