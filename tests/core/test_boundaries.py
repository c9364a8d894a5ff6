"""Where a sentence ends, and where a dot ends none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relaygen_lmeval.core.boundaries import find_boundary
from relaygen_lmeval.core.stops import Scanner
from relaygen_lmeval.core.types import StopRule


def sentence(text: str) -> str | None:
    end = find_boundary(text, 0, final=True)
    return None if end is None else text[:end]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("It is 21. Next", "It is 21."),
        ("Is it 21? Yes", "Is it 21?"),
        ("Yes! Now", "Yes!"),
        ("Hmm... let me", "Hmm..."),
        ("Hmm… let me", "Hmm…"),
        ('He said "no." Then', 'He said "no."'),
        ("(It is 3.) Then", "(It is 3.)"),
        ("a line\nanother", "a line\n"),
        ("これは五です。次に", "これは五です。"),
        ("本当？はい", "本当？"),
        ("यह पाँच है। अब", "यह पाँच है।"),
        ("هل هو خمسة؟ نعم", "هل هو خمسة؟"),
        ("São 21. Portanto", "São 21."),
        ("so x = 2. Next", "so x = 2."),
        ("the answer is A. Next", "the answer is A."),
    ],
)
def test_ends_a_sentence(text, wanted):
    assert sentence(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "3.14 is pi",
        "e.g. this one",
        "i.e. that",
        "1. First",
        "text:\t 2. Second",
        "cf. the table",
        "Dr. Who",
        "z.B. so",
        "at 5 a.m. we",
        "version 1.2.3 of",
        "no end at all",
    ],
)
def test_ends_no_sentence(text):
    assert sentence(text) is None


def test_a_dot_at_the_end_is_undecided_until_the_next_character():
    assert find_boundary("It is 3.", 0) is None
    assert find_boundary("It is 3.1", 0) is None
    assert find_boundary("It is 3. ", 0) == 8


def test_a_number_later_in_a_line_ends_its_sentence():
    """Only at the beginning of a line, or after a colon, is `5.` a list number."""
    assert sentence("We have 12 and then again there are 5. Next") == (
        "We have 12 and then again there are 5."
    )


PIECES = st.lists(
    st.sampled_from(["It", " is", " 3", ".", "14", " ", "e.g", "!", '"', "\n", "。", "1", "Dr"]),
    max_size=25,
)


def first_end(pieces: list[str]) -> int | None:
    scanner = Scanner(StopRule(boundary="sentence"))
    for piece in pieces:
        if stop := scanner.feed(piece):
            return stop.end
    stop = scanner.finish()
    return stop.end if stop else None


@given(PIECES)
def test_the_same_text_ends_at_the_same_place_by_character_token_or_whole(pieces):
    text = "".join(pieces)

    assert first_end(pieces) == first_end(list(text)) == first_end([text])


@given(PIECES)
def test_the_scanner_agrees_with_a_look_at_the_whole_text(pieces):
    text = "".join(pieces)

    assert first_end(list(text)) == find_boundary(text, 0, final=True)
