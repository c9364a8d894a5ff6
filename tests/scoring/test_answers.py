"""A table of answers as models write them, against verdicts that mathematics decided."""

from __future__ import annotations

from collections import Counter

import pytest

from relaygen_lmeval.scoring.boxes import boxed
from relaygen_lmeval.scoring.results import letter, math
from tests.scoring.answers import CUT, NONE, RIGHT, ROWS, WRONG


def verdict(gold: str, text: str) -> str:
    scores = math({"answer": gold}, [[text]])
    if scores["truncated"]:
        return CUT
    if scores["no_answer"]:
        return NONE
    return RIGHT if scores["avg@1"] else WRONG


@pytest.mark.parametrize(("gold", "text", "wanted"), ROWS, ids=[str(i) for i in range(len(ROWS))])
def test_the_verdict_is_the_one_of_mathematics(gold, text, wanted):
    assert verdict(gold, text) == wanted


def test_the_table_is_large_and_has_every_verdict():
    counts = Counter(wanted for _, _, wanted in ROWS)

    assert len({(gold, text) for gold, text, _ in ROWS}) >= 150
    assert min(counts[kind] for kind in (RIGHT, WRONG, NONE, CUT)) >= 4


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (r"\boxed{C}", "C"),
        (r"\boxed{(C)}", "C"),
        (r"\boxed{c}", "C"),
        (r"\boxed{\text{C}}", "C"),
        (r"\boxed{\textbf{(C)}}", "C"),
        (r"\boxed{\mathrm{C}}", "C"),
        (r"\boxed{C.}", "C"),
        (r"\boxed{C) 10^{-4} eV}", "C"),
        (r"\boxed{\text{C. } 12 \text{ m}}", "C"),
        (r"\boxed{\text{Option C}}", "C"),
        (r"\boxed{Answer: C}", "C"),
        (r"First \boxed{A}, no: \boxed{D}.", "D"),
        (r"\boxed{Cat}", None),
        (r"\boxed{10^{-4}}", None),
        (r"\boxed{A cat}", None),
        ("The answer is C", None),
    ],
)
def test_the_letter_of_a_choice(text, wanted):
    assert letter(text) == wanted


def test_boxes_are_found_whatever_stands_in_them():
    assert boxed(r"\boxed{\left\{ x : x > 0 \right\}}") == r"\left\{ x : x > 0 \right\}"
    assert boxed(r"\boxed{\boxed{3}}") == r"\boxed{3}"
    assert boxed(r"\boxed{3}\boxed{4}") == "4"
    assert boxed("\boxed{3}") is None  # a backspace: what a careless prompt made of it
