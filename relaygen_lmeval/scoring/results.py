"""Scores the repeats of one problem: `process_results` of the reasoning tasks.

The harness names these functions in YAML and hands over a document and its texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relaygen_lmeval.scoring.boxes import boxed
from relaygen_lmeval.scoring.metrics import Graded, Same, score
from relaygen_lmeval.scoring.response import Response
from relaygen_lmeval.scoring.verifier import equal

# C, (C), C., C) 12 m, \text{C}, Option C, \textbf{(C)}: one letter, alone or before its option.
_LETTER = re.compile(
    r"(?:\\(?:text|math)(?:bf|rm|it|sf|tt)?\{\s*)?(?:(?:option|choice|answer)\s*:?\s*)?"
    r"[(\[]?\s*([A-Za-z])\s*(?:[)\].:}]|$)",
    re.IGNORECASE,
)

Read = Callable[[str], str | None]
Doc = Mapping[str, Any]


def math(doc: Doc, results: Sequence[Sequence[str]]) -> dict[str, float]:
    r"""Score mathematics: the last box is compared by math_verify.

    Args:
        doc: With `answer`.
        results: One list, of all repeats' texts.

    Returns:
        See `metrics.score`.

    Examples:
        >>> texts = [r"\boxed{7}", r"\boxed{14/2}", "Seven.", r"\boxed{8}"]
        >>> scores = math({"answer": "7"}, [texts])
        >>> scores["avg@4"], scores["maj@4"], scores["no_answer"]
        (0.5, 1.0, 0.25)
    """
    return score(grade(doc, results[0], boxed, equal), equal)


def choice(doc: Doc, results: Sequence[Sequence[str]]) -> dict[str, float]:
    """Score a choice: the letter in the last box is matched with `answer`; see `math`."""
    return score(grade(doc, results[0], letter, _same_letter), _same_letter)


def letter(text: str) -> str | None:
    r"""Read the letter in the last box, in upper case.

    Examples:
        >>> letter(r"\boxed{(c)}"), letter(r"\boxed{\text{B. } 10^{-4}}"), letter(r"\boxed{Dog}")
        ('C', 'B', None)
    """
    content = boxed(text)
    found = _LETTER.match(content) if content else None
    return found[1].upper() if found else None


def verdicts(doc: Doc, texts: Sequence[str]) -> list[bool]:
    """Whether each text is right, as `math` or `choice` counts it: who has options is a choice."""
    is_choice = "choices" in doc
    read, same = (letter, _same_letter) if is_choice else (boxed, equal)
    return [graded.right for graded in grade(doc, texts, read, same)]


def grade(doc: Doc, texts: Sequence[str], read: Read, same: Same) -> list[Graded]:
    """Give the verdict on each text.

    Args:
        doc: With `answer`.
        texts: A `Response` knows whether its reasoning was finished; a plain text shows it.
        read: Finds the answer in what follows the reasoning.
        same: Whether two answers are equal.
    """
    return [_grade(str(doc["answer"]), text, read, same) for text in texts]


def _grade(gold: str, text: str, read: Read, same: Same) -> Graded:
    part = (text if isinstance(text, Response) else Response(text)).answer
    if part is None:
        return Graded(None, right=False, truncated=True)
    answer = read(part)
    return Graded(answer, right=answer is not None and same(gold, answer))


def _same_letter(gold: str, answer: str) -> bool:
    return gold == answer
