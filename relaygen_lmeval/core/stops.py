"""What ends a turn: one scanner for run time, speculation and calibration.

It sees text alone, token by token, and never asks how a model made it.
"""

from __future__ import annotations

from typing import NamedTuple

from relaygen_lmeval.core.boundaries import find_boundary, find_paragraph
from relaygen_lmeval.core.types import EndedBy, StopRule

_LOOK_BACK = 24  # characters an undecided sentence end may need again: quotes, abbreviations


class Stop(NamedTuple):
    """The end of a turn: tokens that begin at or after `end` (characters) are given back."""

    reason: EndedBy
    matched: str | None
    end: int


class Scanner:
    """Reads a turn's text as it is written and says where it stops.

    The same text gives the same stop however it is cut into pieces, but for `min_tokens`,
    which counts pieces.

    Args:
        rule: What ends the turn.
        before: The end of the text before this turn. It decides word boundaries, and a
            literal may begin in it; cues and sentence ends lie in the turn's own text.

    Examples:
        >>> from relaygen_lmeval.core.cues import CueTable
        >>> scanner = Scanner(StopRule(cues=CueTable(("So",))))
        >>> [scanner.feed(piece) for piece in ("So", "me", " say.", " So")]
        [None, None, None, None]
        >>> scanner.feed(" 21")
        Stop(reason='cue', matched='So', end=15)
    """

    def __init__(self, rule: StopRule, before: str = "") -> None:
        self._rule = rule
        self._window = before
        self._origin = -len(before)  # position of the window's first character in the turn
        self._n_tokens = 0
        self._live: tuple[str, int] | None = None  # a cue whose sentence goes on, and its end
        self._cue_from = 0  # no cue begins before this position
        waits = rule.after_space and not before.strip()
        self._literals_from = None if waits else self._origin
        longest = max((len(text) for text in rule.literals), default=0)
        self._reach = max(_LOOK_BACK, longest, rule.cues.reach if rule.cues else 0)

    @property
    def position(self) -> int:
        """Characters of the turn read so far."""
        return self._origin + len(self._window)

    @property
    def cue_waits(self) -> bool:
        """Whether a cue was read that only `min_tokens` or its sentence's end decides."""
        return self._live is not None

    def feed(self, text: str) -> Stop | None:
        """Read one token's text (it may be empty) and say whether the turn ends with it."""
        self._n_tokens += 1
        fresh = self.position
        self._window += text
        stop = self._look(fresh, final=False)
        self._forget()
        return stop

    def finish(self) -> Stop | None:
        """Say whether a cue or sentence end that waited for more text counts, none coming."""
        return self._look(self.position, final=True)

    def _look(self, fresh: int, *, final: bool) -> Stop | None:
        return (
            self._opening()
            or self._literal(fresh)
            or self._boundary(fresh, final)
            or self._cue(fresh, final)
        )

    def _forget(self) -> None:
        """Keep the window as short as any later match may reach back."""
        if len(self._window) > 4 * self._reach and self._rule.opening is None:
            drop = len(self._window) - 2 * self._reach
            self._window = self._window[drop:]
            self._origin += drop

    def _opening(self) -> Stop | None:
        if self._rule.opening is None:
            return None
        text = self._window.lstrip()
        if not text or (
            len(text) < len(self._rule.opening) and self._rule.opening.startswith(text)
        ):
            return None
        return Stop("opening", None, self.position)

    def _literal(self, fresh: int) -> Stop | None:
        self._await_text()
        if self._literals_from is None:
            return None
        found = []
        for literal in self._rule.literals:
            start = max(self._literals_from, fresh - len(literal) + 1) - self._origin
            at = self._window.find(literal, max(0, start))
            if at >= 0:
                found.append((self._origin + at + len(literal), literal))
        if not found:
            return None
        end, literal = min(found)
        return Stop(self._rule.literal_reason, literal, end)

    def _await_text(self) -> None:
        """Literals may begin at the first character that is no blank."""
        if self._literals_from is None and (text := self._window.lstrip()):
            self._literals_from = self.position - len(text)

    def _boundary(self, fresh: int, final: bool) -> Stop | None:
        if self._rule.boundary is None:
            return None
        start = max(fresh - _LOOK_BACK, 0)
        if self._rule.boundary == "paragraph":
            end = self._paragraph_end(start)
        else:
            end = self._sentence_end(start, final)
        return None if end is None else Stop("boundary", None, end)

    def _sentence_end(self, position: int, final: bool) -> int | None:
        """End of the first sentence that ends after `position`, both counted in the turn."""
        at = max(0, position - self._origin)
        end = find_boundary(self._window, at, final=final)
        return None if end is None else end + self._origin

    def _paragraph_end(self, position: int) -> int | None:
        end = find_paragraph(self._window, max(0, position - self._origin))
        return None if end is None else end + self._origin

    def _cue(self, fresh: int, final: bool) -> Stop | None:
        if self._rule.cues is None:
            return None
        self._read_cues(fresh, final)
        if self._live is None or self._n_tokens < self._rule.min_tokens:
            return None
        if self._cue_sentence_end(fresh, final=True) is not None:
            return None  # "so." may have ended the sentence: the next character tells
        return Stop("cue", self._live[0], self.position)

    def _cue_sentence_end(self, fresh: int, *, final: bool) -> int | None:
        """Where the sentence of the live cue ends, if it does."""
        if self._live is None:
            return None
        return self._sentence_end(max(self._live[1], fresh - _LOOK_BACK), final)

    def _read_cues(self, fresh: int, final: bool) -> None:
        """Take up the cues of the new text; one ends with its sentence."""
        cues = self._rule.cues
        assert cues is not None
        if self._cue_sentence_end(fresh, final=final) is not None:
            self._live = None
        start = max(self._cue_from, fresh - cues.reach)
        while found := cues.search(self._window, max(0, start - self._origin), final=final):
            start = self._cue_from = found.end + self._origin
            ended = self._sentence_end(start, final) is not None
            self._live = None if ended else (found.cue, start)
