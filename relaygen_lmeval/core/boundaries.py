"""Ends of sentences, in the languages the tasks use: where a small segment ends."""

from __future__ import annotations

import re
from typing import Literal

Boundary = Literal["sentence", "paragraph"]

# Characters of Unicode's Sentence_Terminal that need no blank after them.
_IMMEDIATE = "\n\u3002\uff01\uff1f\uff61\uff0e\u0964\u0965\u061f\u06d4\u0589\u1362\u104b\u17d4\u203c\u2047-\u2049"
_CLOSERS = "\"'\u201d\u2019\u00bb)\\]}*_`$"
_END = re.compile(rf"[{_IMMEDIATE}]|[.!?\u2026]+[{_CLOSERS}]*(?=\s|\Z)")

_ABBREVIATION = re.compile(
    r"(?:^|[^\w.])(?:e\.?g|i\.?e|vs|cf|mr|mrs|ms|dr|prof|st|sr|sra|jr|fig|eq|approx|resp|incl"
    r"|bzw|ca|bspw|p\.ej|por ej|\w(?:\.\w)+)\Z",
    re.IGNORECASE,
)
_LIST_NUMBER = re.compile(r"(?:^|[\n:;])[ \t]*[(*]*\d{1,3}\Z")
_LOOK_BACK = 16  # longest abbreviation or list number that is looked at, in characters


def find_boundary(text: str, start: int, *, final: bool = False) -> int | None:
    """Find where the first sentence after `start` ends.

    A newline and the full stops of scripts without blanks end a sentence at once; `.`, `!`,
    `?` and an ellipsis do when a blank follows, closing quotes and brackets included. The dots
    of `3.14`, `e.g.` and of a list number `1.` end none.

    Args:
        text: The text so far; what lies before `start` is only looked back at.
        start: Where to begin, in characters.
        final: Whether no further text will come; else a dot that ends the text is undecided.

    Returns:
        The position just after the sentence, in characters, or `None`.

    Examples:
        >>> find_boundary("It is 3.14 m. Next", 0)
        13
        >>> find_boundary("It is 3.", 0) is None
        True
        >>> find_boundary("It is 3.", 0, final=True)
        8
    """
    for found in _END.finditer(text, start):
        at_end = found.end() == len(text) and found.group()[0] not in _IMMEDIATE_SET
        if at_end and not final:
            return None
        if found.group()[0] != "." or not _is_inner_dot(text, found.start()):
            return found.end()
    return None


def find_paragraph(text: str, start: int) -> int | None:
    r"""Find where the first paragraph after `start` ends: at an empty line.

    Examples:
        >>> find_paragraph("One.\nStill one.\n\nTwo", 0)
        17
    """
    found = _PARAGRAPH.search(text, start)
    return found.end() if found else None


_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_IMMEDIATE_SET = frozenset(_IMMEDIATE.replace("\u2047-\u2049", "\u2047\u2048\u2049"))


def _is_inner_dot(text: str, dot: int) -> bool:
    if text.startswith("..", dot):
        return False
    left = max(0, dot - _LOOK_BACK)
    # A window that begins inside a line must not look like the beginning of one.
    before = text[left:dot] if left == 0 else "\x00" + text[left:dot]
    return bool(_ABBREVIATION.search(before) or _LIST_NUMBER.search(before))
