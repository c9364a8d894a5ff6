"""Candidates from a file, and from the traces themselves."""

from __future__ import annotations

import pytest

from relaygen_lmeval.calibration.candidates import MAX_DISCOVERED, discover, read_candidates
from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.errors import CalibrationError

PORTUGUESE = [
    f"<think>\nA Ana tem {i} livros. Portanto, são {i} livros ao todo. Além disso, compra 3.14 kg."
    f" No entanto ela vende {i}; então ficam {i + 1} livros, e pronto.\n</think>"
    for i in range(12)
]
JAPANESE = [
    f"<think>\n花子は本を{i}冊持っている。したがって、合計は{i}冊である。しかし、{i}冊を売った。"
    f"したがって答えは{i}である。まず数える！つまり、{i}だ。\n</think>"
    for i in range(12)
]


def test_portuguese_openers_are_found():
    found = discover(PORTUGUESE)

    assert {"Portanto,", "Além disso,", "No", "então"} <= set(found)
    assert "Portanto" not in found  # it only occurs with its comma
    assert not any(character.isdigit() for cue in found for character in cue)


def test_japanese_openers_are_found_with_and_without_their_comma():
    found = discover(JAPANESE)

    assert {"したがって、", "したがって", "しかし、", "つまり、"} <= set(found)
    assert "しかし" not in found


@pytest.mark.parametrize("texts", [PORTUGUESE, JAPANESE])
def test_what_is_found_can_fire(texts):
    for cue in discover(texts):
        assert any(CueTable((cue,)).search(text, 0, final=True) for text in texts), cue


def test_an_opener_must_occur_often_and_in_two_traces():
    once = ["Logo, x. " * 20, "Bem, y."]

    assert discover(once) == ()
    assert discover([*once, "Logo, z."]) == ("Logo,",)
    assert discover(["Logo, x.", "Logo, x."], min_occurrences=3) == ()


def test_a_word_that_mostly_stands_elsewhere_is_no_opener():
    texts = ["Thus, the dog sees the cat and the bird and the owl. It is so, the end."] * 10

    found = discover(texts)

    assert "Thus," in found
    assert "the" not in found


def test_texts_without_sentences_have_no_openers():
    assert discover(["", "   ", "12 34", "<think>"], min_occurrences=1) == ()


def test_at_most_so_many_are_kept():
    words = [f"{a}{b}c" for a in "abcdefghijklmnop" for b in "abcdefghijklmnop"]
    text = " ".join(f"{word.capitalize()}, x." for word in words)

    assert len(discover([text, text], min_occurrences=2)) == MAX_DISCOVERED


@pytest.mark.parametrize("text", ["So,\nThus\nPor isso,\n", '["So,", "Thus", "Por isso,"]'])
def test_a_file_is_a_list_of_lines_or_json(tmp_path, text):
    (tmp_path / "c").write_text(text, encoding="utf-8")

    assert read_candidates(tmp_path / "c") == ("So,", "Thus", "Por isso,")


def test_a_blank_at_the_end_belongs_to_the_candidate(tmp_path):
    (tmp_path / "c").write_text("So \nSo", encoding="utf-8")

    assert read_candidates(tmp_path / "c") == ("So ", "So")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"So,\nThus\nSo,\n", "entry 3, 'So,', is there twice"),
        (b"So,\n\nThus\n", "entry 2 is ''"),
        (b'["So,", " "]', "entry 2 is ' '"),
        (b'["So,", 3]', "entry 2 is 3"),
        (b'["So,", ', "is no JSON list"),
        (b"", "is empty"),
        (b"[]", "is empty"),
        (b"\xe9\n", "is not UTF-8"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, content, said):
    if content is not None:
        (tmp_path / "c").write_bytes(content)

    with pytest.raises(CalibrationError, match=said):
        read_candidates(tmp_path / "c")
