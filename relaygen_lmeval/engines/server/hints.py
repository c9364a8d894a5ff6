"""Stop strings for a server: where it may stop early, so that few tokens are written in vain.

They are hints. `core.stops.Scanner` decides: a stop too many costs one more request, a stop too
few some tokens that are dropped, and neither changes a text.
"""

from __future__ import annotations

import re

from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.types import StopRule

# What most often follows a word that is a cue. A full stop or a newline ends its sentence, and
# the cue with it.
_AFTER_WORD = (" ", ",", ":", ";", ")", "*", "'", '"', "-")
_FULL_STOPS = (".", "!", "?", "\u2026")
_AFTER_FULL_STOP = (" ", ") ", '" ', "' ", "* ", "] ", "$ ", "\u201d ")
_AT_ONCE = ("\n", "\u3002", "\uff01", "\uff1f", "\u0964", "\u061f", "\u06d4")
_OPENING_TOKENS = 8  # to see whether a text begins with `<think>`


def stop_hints(rule: StopRule) -> tuple[str, ...]:
    """Strings whose completion a server may take for the end of a turn.

    A word that is a cue is sent with what follows it, so that the token which confirms it is
    there already and a handoff costs one request.

    Examples:
        >>> stop_hints(StopRule(literals=("</think>",), cues=CueTable(("So,",))))
        ('</think>', 'So,')
        >>> "Now " in stop_hints(StopRule(cues=CueTable(("Now",))))
        True
    """
    hints = list(rule.literals)
    if rule.cues is not None:
        hints += [hint for cue in rule.cues.cues for hint in _of_cue(cue, rule.cues)]
    if rule.boundary == "paragraph":
        hints.append("\n\n")
    elif rule.boundary == "sentence":
        hints += [*_AT_ONCE, *(stop + after for stop in _FULL_STOPS for after in _AFTER_FULL_STOP)]
    return tuple(dict.fromkeys(hints))


def round_tokens(rule: StopRule, n_tokens: int, max_tokens: int, *, cue_waits: bool) -> int:
    """How many tokens to ask for next: few where the client alone can see the end.

    Args:
        rule: What ends the turn.
        n_tokens: Tokens the turn has.
        max_tokens: Its bound.
        cue_waits: Whether a cue waits for `min_tokens`, which no server counts as we do.
    """
    left = max_tokens - n_tokens
    if rule.opening is not None:
        return min(left, _OPENING_TOKENS)
    if cue_waits:
        return min(left, max(1, rule.min_tokens - n_tokens))
    return left


def _of_cue(cue: str, cues: CueTable) -> tuple[str, ...]:
    if cues.match == "word" and re.search(r"\w\Z", cue):
        return tuple(cue + after for after in _AFTER_WORD)
    return (cue,)
