"""Cues: the table, and the only code that knows what a match is.

Run time, calibration and reports all ask `CueTable.search`, so that what is counted is
exactly what would have fired.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

MatchRule = Literal["word", "substring"]

# Scripts written without blanks: a word there needs no blank or comma around it to be one.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_SPACED_WORD = rf"[^\W{_UNSPACED}]"


class CueMatch(NamedTuple):
    """A cue in a text: `text[start:end]`, sure once `seen` characters of the text are known."""

    cue: str
    start: int
    end: int
    seen: int


@dataclass(frozen=True)
class CueTable:
    """The cues of a model pair and the rule by which they match.

    Attributes:
        cues: Strings that end a segment of the large model. A longer one is tried first.
        match: `word`: a cue is no part of a longer word, which the character after it
            decides. `substring`: wherever its characters appear, as the published code does.

    Examples:
        >>> table = CueTable(("now", "So", "So,"))
        >>> table.search("I know. So, that", 0)
        CueMatch(cue='So,', start=8, end=11, seen=11)
        >>> table.search("and So", 0) is None  # "So" may yet become "Some"
        True
        >>> table.search("and So", 0, final=True).cue
        'So'
    """

    cues: tuple[str, ...]
    match: MatchRule = "word"

    @cached_property
    def reach(self) -> int:
        """How many characters back from new text a match may begin."""
        return max((len(cue) for cue in self.cues), default=0) + 1

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        if not self.cues:
            return re.compile(r"(?!)")
        by_length = sorted(self.cues, key=lambda cue: (-len(cue), cue))
        # A look at the first character spares trying every cue at every position.
        first = "".join(sorted({re.escape(cue[0]) for cue in self.cues}))
        return re.compile(f"(?=[{first}])(?:{'|'.join(map(self._alternative, by_length))})")

    @cached_property
    def _prefixes(self) -> frozenset[str]:
        """Cues that a longer cue begins with: at the end of a text they must wait."""
        return frozenset(a for a in self.cues for b in self.cues if a != b and b.startswith(a))

    def _alternative(self, cue: str) -> str:
        if self.match == "substring":
            return re.escape(cue)
        left = rf"(?<!{_SPACED_WORD})" if re.match(_SPACED_WORD, cue) else ""
        right = rf"(?!{_SPACED_WORD})" if _open_ended(cue) else ""
        return left + re.escape(cue) + right

    def search(self, text: str, start: int, *, final: bool = False) -> CueMatch | None:
        """Find the first cue that begins at or after `start` and is sure.

        Args:
            text: The text so far; what lies before `start` only tells word boundaries.
            start: Where the segment begins in it, in characters.
            final: Whether no further text will come.

        Returns:
            The match, or `None`: no cue, or one that the next character has yet to decide.
        """
        for found in self._pattern.finditer(text, start):
            cue, end = found.group(), found.end()
            if end < len(text) or final or self._sure_at_end(cue):
                waits = self.match == "word" and _open_ended(cue) and end < len(text)
                return CueMatch(cue, found.start(), end, end + waits)
        return None

    def _sure_at_end(self, cue: str) -> bool:
        if self.match == "substring":
            return True
        return not _open_ended(cue) and cue not in self._prefixes


def _open_ended(cue: str) -> bool:
    return re.match(_SPACED_WORD, cue[-1]) is not None
