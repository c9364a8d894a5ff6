r"""Finds the answer in a text: the last `\boxed{}`.

It knows LaTeX's braces and nothing of what stands between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_OPENING = re.compile(r"\\(?:boxed|fbox)\s*(?:\{|([^\s{}\\$]))")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
# What may stand between boxes that are one answer: "\boxed{2} and \boxed{3}", "$x=\boxed{2}$, ...".
_JOINT = re.compile(r"[,;&]|\\text\{[\s,]*(?:and|or)\s*\}|\b(?:and|or)\b")
_FILLING = re.compile(r"[\s$]|\\[,;:! ]|\\q?quad\b|\\[()]|[A-Za-z]\s*=")


class Box(NamedTuple):
    """A complete box: what is in it, and where it stands."""

    content: str
    start: int
    end: int


def boxed(text: str) -> str | None:
    r"""Give the content of the last box that holds anything.

    Boxes with nothing but a comma, "and" or "or" between them (and the name of an unknown) are
    one answer of several parts.
    A box that is never closed is none, and so is an empty one, as prompts have it.

    Args:
        text: LaTeX and prose.

    Returns:
        The content, blanks around it removed; `None` where there is no box.

    Examples:
        >>> boxed(r"First \boxed{4}. No: \boxed{\frac{7}{2}}, as shown.")
        '\\frac{7}{2}'
        >>> boxed(r"$x = \boxed{2}$ or $x = \boxed{3}$")
        '2, 3'
        >>> boxed(r"It is \boxed{12")
    """
    parts: list[Box] = []
    for box in _boxes(text):
        if parts and not _joined(text[parts[-1].end : box.start]):
            parts.clear()
        parts.append(box)
    return ", ".join(dict.fromkeys(part.content for part in parts)) or None


def _joined(between: str) -> bool:
    rest, n_joints = _JOINT.subn("", between)
    return n_joints > 0 and not _FILLING.sub("", rest)


def _boxes(text: str) -> Iterator[Box]:
    position = 0
    while opening := _OPENING.search(text, position):
        position = opening.end()
        if opening[1]:  # \boxed 5, as TeX reads it
            yield Box(opening[1], opening.start(), position)
        elif end := _closing(text, position):
            content = text[position : end - 1].strip()
            position = end
            if content:
                yield Box(content, opening.start(), end)


def _closing(text: str, position: int) -> int | None:
    """Where the brace that was opened before `position` is closed: the place after it."""
    depth = 1
    for brace in _BRACE.finditer(text, position):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return brace.end()
    return None
