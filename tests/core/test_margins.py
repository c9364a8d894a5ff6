"""Where cues fire in a finished text is where the run time fires."""

from __future__ import annotations

import asyncio
import random
from itertools import accumulate, pairwise

import pytest

from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.margins import (
    Span,
    TokenRange,
    cue_spans,
    handovers,
    occurrences,
    union,
)
from relaygen_lmeval.core.policies import RelayGen
from relaygen_lmeval.core.types import Piece, RelayRequest, Role
from relaygen_lmeval.engines.scripted import EOS, ScriptedEngine
from relaygen_lmeval.runner import relay_one

CUES = ("So", "So,", "now", "Now,", "Wait,", "したがって", "so ")
PIECES = (
    *("So", " So", ",", ", ", " now", "Now,", " k", "now", "n", " W", "ait", ",", " 3", ".", "14"),
    *(
        ". ",
        "\n",
        "! ",
        "e.g. ",
        " it is",
        "Som",
        "e",
        "したがって",
        "、",
        "12",
        "。",
        "",
        " so",
        " ",
    ),
    *("?", '." ', "...", " 1. ", "a", "word ", "  "),
)


def random_texts(n: int) -> list[list[str]]:
    rng = random.Random(0)
    return [rng.choices(PIECES, k=rng.randrange(1, 60)) for _ in range(n)]


def relayed(pieces: list[str], table: CueTable, least: int, most: int) -> list[TokenRange]:
    """What the run time hands over where both models would write the same text."""
    policy = RelayGen(cues=table, min_large_tokens=least, max_small_tokens=most)
    engine = ScriptedEngine(lambda turn: [*pieces[turn.n_before :], EOS])
    request = RelayRequest(0, dict.fromkeys(Role, Piece("")), max_tokens=10_000)
    result = asyncio.run(relay_one(request, policy, dict.fromkeys(Role, engine)))
    assert result.text == "".join(pieces)
    ends = [0, *accumulate(segment.n_tokens for segment in result.segments)]
    return [
        TokenRange(first, end - 1)
        for (first, end), segment in zip(pairwise(ends), result.segments, strict=True)
        if segment.role is Role.SMALL and segment.n_tokens
    ]


@pytest.mark.parametrize(("least", "most"), [(0, 128), (5, 128), (2, 4)])
@pytest.mark.parametrize("match", ["word", "substring"])
def test_handovers_are_those_of_the_run_time_on_1000_random_texts(least, most, match):
    table = CueTable(CUES, match)

    for pieces in random_texts(1000):
        simulated = handovers(pieces, table, least, most)
        assert joined(simulated) == joined(relayed(pieces, table, least, most)), pieces


def joined(ranges: list[TokenRange]) -> list[tuple[int, int]]:
    """Ranges that touch joined: the runner joins chunks of one model, too."""
    out: list[tuple[int, int]] = []
    for first, last in ranges:
        if out and out[-1][1] == first - 1:
            out[-1] = (out[-1][0], last)
        else:
            out.append((first, last))
    return out


@pytest.mark.parametrize("match", ["word", "substring"])
def test_the_first_cue_of_1000_random_texts_is_where_the_run_time_hands_over(match):
    table = CueTable(CUES, match)
    n_found = 0

    for pieces in random_texts(1000):
        spans = cue_spans(pieces, table)
        ranges = handovers(pieces, table, 0, 10_000)
        assert bool(spans) == bool(ranges), pieces
        assert not spans or spans[0].tokens == ranges[0], pieces
        n_found += bool(spans)

    assert n_found > 300


def test_every_cue_that_the_run_time_follows_is_an_occurrence():
    table = CueTable(("So", "So,", "Now,"))
    pieces = [
        "So",
        " it",
        " is",
        " 21",
        ".",
        " Now",
        ",",
        " 3",
        ".",
        "5",
        " m",
        ".",
        " End",
        " So",
        ",",
        " ok",
        ".",
    ]

    spans = cue_spans(pieces, table)

    assert [span.cue for span in spans] == ["So", "Now,", "So,"]
    assert [span.tokens for span in spans] == handovers(pieces, table, 0, 128)


def test_the_longest_cue_counts_alone():
    assert [s.cue for s in cue_spans(["So", ",", " it"], CueTable(("So", "So,")))] == ["So,"]
    assert [s.cue for s in cue_spans(["So", " it", " is"], CueTable(("So", "So,")))] == ["So"]
    assert [s.cue for s in cue_spans(["Some", " of", " it"], CueTable(("So",)))] == []


def test_the_token_that_makes_a_bare_cue_sure_stays_with_the_large_model():
    assert cue_spans([" So", " it", " is", ".", " X"], CueTable(("So",))) == [
        Span("So", TokenRange(2, 3))
    ]


@pytest.mark.parametrize(
    ("pieces", "spans"),
    [
        ([], []),
        (["So,"], []),  # one token
        (["Ana", " has", " 21", "."], []),  # no cue
        (["So,", " it", " is"], [Span("So,", TokenRange(1, 2))]),  # no sentence end
        (["So, it is. ", "Next"], []),  # the sentence ends within the cue's own token
        (["So,", "\n", "It is"], [Span("So,", TokenRange(1, 1))]),
        (["So,", " 3", ".", "14", " m", ". ", "x"], [Span("So,", TokenRange(1, 5))]),
    ],
)
def test_the_edges(pieces, spans):
    assert cue_spans(pieces, CueTable(("So,",))) == spans


def test_the_mean_margin_is_that_of_the_tokens_after_the_cue():
    pieces = ["So", ",", " it", " is", " 21", ".", " Now", " x"]
    margins = [0.0, 0.1, 0.2, 0.4, 0.6, 1.0, 0.0, 0.0]

    [found] = occurrences(pieces, margins, CueTable(("So,",)), trace=7)

    assert (found.cue, found.trace, found.first, found.last) == ("So,", 7, 2, 5)
    assert found.mean_margin == pytest.approx((0.2 + 0.4 + 0.6 + 1.0) / 4)


def test_margins_of_another_tokenizer_are_found_by_characters():
    pieces = ["So", ",", " it", " is", " 21", ".", " Now"]
    others = ["So,", " i", "t is", " 2", "1.", " Now"]
    margins = [0.0, 0.1, 0.3, 0.5, 0.7, 0.0]

    [found] = occurrences(pieces, margins, CueTable(("So,",)), 0, scored_texts=others)

    assert (found.first, found.last) == (1, 4)
    assert found.mean_margin == pytest.approx((0.1 + 0.3 + 0.5 + 0.7) / 4)


def test_the_union_counts_a_token_once():
    assert union([TokenRange(2, 5), TokenRange(4, 8), TokenRange(10, 10)]) == 8
    assert union([]) == 0
