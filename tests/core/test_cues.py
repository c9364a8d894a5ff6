"""What a cue match is; and that it does not depend on how the text comes in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.stops import Scanner
from relaygen_lmeval.core.types import StopRule


def found(text: str, *cues: str, match: str = "word", final: bool = True) -> str | None:
    hit = CueTable(cues, match).search(text, 0, final=final)  # type: ignore[arg-type]
    return hit.cue if hit else None


@pytest.mark.parametrize("text", ["I know it", "the snow", "unknown", "nowhere", "now_1"])
def test_a_cue_is_no_part_of_a_word(text):
    assert found(text, "now") is None


@pytest.mark.parametrize("text", ["now we", "and now, we", "(now)", "now", '"now"', "now-or"])
def test_a_cue_is_a_word_of_its_own(text):
    assert found(text, "now") == "now"


def test_substring_matches_inside_words_as_the_published_code_does():
    assert found("I know it", "now", match="substring") == "now"


def test_a_longer_cue_is_not_shadowed_by_a_shorter_one():
    assert found("So, that", "So", "So,") == "So,"


def test_a_bare_cue_waits_for_the_character_after_it():
    assert found("So", "So", final=False) is None
    assert found("So that", "So", final=False) == "So"
    assert found("Some", "So", final=False) is None


def test_a_cue_that_begins_a_longer_one_waits():
    assert found("So,", "So,", "So, then", final=False) is None
    assert found("So, but", "So,", "So, then", final=False) == "So,"


def test_scripts_without_blanks_need_none():
    assert found("したがってこれは", "したがって") == "したがって"
    assert found("だから、3", "だから") == "だから"


def test_a_cue_with_a_blank_matches_as_listed():
    assert found("So the", "So ") == "So "
    assert found("Also the", "So ") is None


def test_no_cues_never_match():
    assert CueTable(()).search("So", 0, final=True) is None


PIECES = st.lists(
    st.sampled_from(["So", ",", " ", "now", "k", "Thus", "\n", "3", ".", "m", "Then", "é", "今"]),
    max_size=30,
)
CUES = CueTable(("So", "So,", "now", "Thus", "Then"))


def first_cue(pieces: list[str]) -> str | None:
    scanner = Scanner(StopRule(cues=CUES))
    for piece in pieces:
        if stop := scanner.feed(piece):
            return stop.matched
    stop = scanner.finish()
    return stop.matched if stop else None


@given(PIECES)
def test_the_same_text_gives_the_same_cue_by_character_and_by_token(pieces):
    text = "".join(pieces)

    assert first_cue(pieces) == first_cue(list(text))


@given(PIECES)
def test_the_scanner_agrees_with_a_search_of_the_whole_text(pieces):
    """But for a cue whose own piece also ends its sentence: there is nothing to hand over."""
    text = "".join(pieces).replace("\n", " ").replace(".", " ")
    hit = CUES.search(text, 0, final=True)

    assert first_cue(list(text)) == (hit.cue if hit else None)
