"""What ends a turn: literals, cues with their least length, sentence ends, the opening."""

from __future__ import annotations

import pytest

from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.stops import Scanner, Stop
from relaygen_lmeval.core.types import StopRule

CUES = CueTable(("So", "So,", "now"))


def scan(rule: StopRule, pieces: list[str], before: str = "") -> tuple[int, Stop] | None:
    """The number of the piece that stops the turn, and the stop."""
    scanner = Scanner(rule, before)
    for n, piece in enumerate(pieces, start=1):
        if stop := scanner.feed(piece):
            return n, stop
    return None


def test_a_cue_split_over_tokens_is_found():
    assert scan(StopRule(cues=CUES), ["S", "o", ",", " x"]) == (3, Stop("cue", "So,", 3))


def test_a_bare_cue_ends_with_the_token_that_shows_its_end():
    assert scan(StopRule(cues=CUES), [" So", " x"]) == (2, Stop("cue", "So", 5))


def test_a_word_begun_by_the_partner_is_no_cue():
    assert scan(StopRule(cues=CUES), ["now", " x"], before="I k") is None


def test_the_least_length_delays_a_cue_and_does_not_hide_it():
    rule = StopRule(cues=CUES, min_tokens=5)

    hit = scan(rule, ["So", ",", " Ana", " has", " 21", " books"])

    assert hit == (5, Stop("cue", "So,", 14))


def test_a_delayed_cue_ends_with_its_sentence():
    rule = StopRule(cues=CUES, min_tokens=5)

    assert scan(rule, ["So", ",", " 21", ".", " Next", " one", " is"]) is None


def test_a_cue_that_its_own_full_stop_follows_hands_nothing_over():
    assert scan(StopRule(cues=CUES), ["I", " think", " so", ".", " Next", " one"]) is None


def test_a_cue_before_a_dot_that_ends_nothing_is_followed_one_token_later():
    hit = scan(StopRule(cues=CUES), [" now", " 3", ".", "5", " kg"])

    assert hit == (2, Stop("cue", "now", 6))
    assert scan(StopRule(cues=CUES, min_tokens=3), [" now", " 3", ".", "5"]) == (
        4,
        Stop("cue", "now", 8),
    )


def test_a_later_cue_counts_after_an_expired_one():
    rule = StopRule(cues=CUES, min_tokens=5)

    hit = scan(rule, ["So", ",", " 21", ".", " And", " now", " we"])

    assert hit is not None
    assert hit[1].matched == "now"


def test_a_literal_split_over_tokens_and_over_the_seam():
    rule = StopRule(literals=("Question:",))

    assert scan(rule, ["tion", ":"], before="Ques") == (2, Stop("until", "Question:", 5))


def test_the_first_literal_to_be_complete_wins():
    rule = StopRule(literals=("cd", "b"))

    assert scan(rule, ["abcd"]) == (1, Stop("until", "b", 2))


def test_in_an_answer_literals_wait_for_text():
    rule = StopRule(literals=("\n\n",), after_space=True)

    assert scan(rule, ["\n\n", "The", " end", "\n\n"]) == (4, Stop("until", "\n\n", 11))


def test_a_literal_written_before_does_not_count_again():
    assert scan(StopRule(literals=("ab",)), ["c", "a"], before="ab") is None


@pytest.mark.parametrize("pieces", [["<think>"], ["\n", "<think>", "x"], ["<th", "ink>"]])
def test_the_opening_is_known_once_it_is_whole(pieces):
    hit = scan(StopRule(opening="<think>"), pieces)

    assert hit is not None
    assert hit[1].reason == "opening"


def test_the_opening_is_known_once_it_cannot_be():
    assert scan(StopRule(opening="<think>"), ["<", "b"]) == (2, Stop("opening", None, 2))


def test_the_end_of_the_text_confirms_a_sentence_end():
    scanner = Scanner(StopRule(boundary="sentence"))
    scanner.feed("It is 21.")

    assert scanner.finish() == Stop("boundary", None, 9)


def test_a_long_text_keeps_only_a_window():
    scanner = Scanner(StopRule(cues=CUES, literals=("END",)))
    for _ in range(10_000):
        assert scanner.feed(" word") is None

    assert scanner.position == 50_000
    assert len(scanner._window) < 400
    assert scanner.feed(" So,") == Stop("cue", "So,", 50_004)
