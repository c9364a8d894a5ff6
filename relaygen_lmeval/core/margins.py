"""Where cues fire in a finished text, and what a relay would have handed over in it.

Calibration measures these places; it decides nothing that the run time does not, for both read a
text token by token through `CueTable.search`, `find_boundary` and `Scanner`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from relaygen_lmeval.core.boundaries import find_boundary
from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.stops import Scanner
from relaygen_lmeval.core.types import StopRule

_CONTEXT = 64  # characters before a turn that a stop may look back at, as in `core.relay`


class TokenRange(NamedTuple):
    """Tokens `first` to `last`, both included."""

    first: int
    last: int

    @property
    def n_tokens(self) -> int:
        """How many there are."""
        return self.last - self.first + 1


class Span(NamedTuple):
    """A cue that would have fired, and the tokens the small model would have written."""

    cue: str
    tokens: TokenRange


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A cue in a trace and how sure a model is after it.

    Attributes:
        cue: The cue.
        trace: Number of the trace.
        first: First token after the one that shows the cue.
        last: Last token of that sentence.
        mean_margin: Mean of `p(1) - p(2)` over these tokens, in [0, 1].
    """

    cue: str
    trace: int
    first: int
    last: int
    mean_margin: float


def cue_spans(token_texts: Sequence[str], table: CueTable) -> list[Span]:
    """Find every place of a text where a cue would hand over, could each of them do so.

    The large model keeps the token that makes a cue sure (of "So we", the token " we"); what
    follows up to the end of the sentence would be the small model's. A sentence that does not
    end goes on to the end of the text. A cue after which nothing follows fires nowhere.

    Args:
        token_texts: The text, token by token.
        table: The cues.

    Examples:
        >>> cue_spans(["So", ",", " it", " is", " 21", ".", " Now"], CueTable(("So,", "Now")))
        [Span(cue='So,', tokens=TokenRange(first=2, last=5))]
    """
    text = "".join(token_texts)
    ends = list(accumulate(map(len, token_texts)))
    spans = []
    for cue, token in _fired(token_texts, table):
        end = find_boundary(text, ends[token], final=True)
        last = len(ends) - 1 if end is None else bisect_left(ends, end)
        if last > token:
            spans.append(Span(cue, TokenRange(token + 1, last)))
    return spans


def occurrences(
    token_texts: Sequence[str],
    margins: Sequence[float],
    table: CueTable,
    trace: int,
    scored_texts: Sequence[str] | None = None,
) -> list[Occurrence]:
    """Find every occurrence of every cue in one trace, with its mean margin.

    Args:
        token_texts: The trace in the tokens of the model that wrote it.
        margins: One a token of the model that scored it.
        table: The candidates; the longest that fits is the one that occurs.
        trace: Number of the trace, passed on.
        scored_texts: The tokens of the model that scored it, where they are others.
    """
    found = []
    for cue, tokens in cue_spans(token_texts, table):
        if scored_texts is not None:
            tokens = _in_other_tokens(tokens, token_texts, scored_texts)
        if tokens.n_tokens > 0:
            own = margins[tokens.first : tokens.last + 1]
            found.append(Occurrence(cue, trace, *tokens, sum(own) / len(own)))
    return found


def handovers(
    token_texts: Sequence[str], table: CueTable, min_large_tokens: int, max_small_tokens: int
) -> list[TokenRange]:
    """Relay a finished text between two models that would both write it.

    Args:
        token_texts: The reasoning, token by token.
        table: The cues.
        min_large_tokens: Tokens of the large model before a cue is followed.
        max_small_tokens: Bound of a small segment whose sentence does not end.

    Returns:
        The tokens that the small model would write, range by range.

    Examples:
        >>> handovers([" So", " it", " is", " 21", ".", " Ok"], CueTable(("So",)), 0, 128)
        [TokenRange(first=2, last=4)]
    """
    large = StopRule(cues=table, min_tokens=min_large_tokens)
    small = StopRule(boundary="sentence")
    ranges: list[TokenRange] = []
    first = 0
    while True:
        first = _turn_end(token_texts, first, large, len(token_texts))
        if first >= len(token_texts):
            return ranges
        end = _turn_end(token_texts, first, small, max_small_tokens)
        ranges.append(TokenRange(first, end - 1))
        first = end


def union(ranges: Sequence[TokenRange]) -> int:
    """Count the tokens that lie in at least one of the ranges."""
    covered, end = 0, 0
    for first, last in sorted(ranges):
        covered += max(0, last + 1 - max(first, end))
        end = max(end, last + 1)
    return covered


def _fired(token_texts: Sequence[str], table: CueTable) -> Iterator[tuple[str, int]]:
    """Every cue with the token at which the run time would follow it.

    That is the token that makes it sure, or the one that shows that a dot there ended nothing.
    """
    text, searched = "", 0
    waiting: list[tuple[str, int]] = []
    for token, piece in enumerate(token_texts):
        start = max(searched, len(text) - table.reach)
        text += piece
        while found := table.search(text, start):
            start = searched = found.end
            waiting.append((found.cue, found.end))
        waiting = [cue for cue in waiting if find_boundary(text, cue[1]) is None]
        for cue, end in waiting:
            if find_boundary(text, end, final=True) is None:
                yield cue, token
        waiting = [cue for cue in waiting if find_boundary(text, cue[1], final=True)]


def _turn_end(token_texts: Sequence[str], first: int, rule: StopRule, most: int) -> int:
    """The token after the last one of a turn that begins with token `first`."""
    scanner = Scanner(rule, _before(token_texts, first))
    ends = []
    for piece in token_texts[first : first + most]:
        stop = scanner.feed(piece)
        ends.append(scanner.position)
        if stop:
            return first + min(bisect_left(ends, stop.end) + 1, len(ends))
    return first + len(ends)


def _before(token_texts: Sequence[str], first: int) -> str:
    tail = ""
    while first and len(tail) < _CONTEXT:
        first -= 1
        tail = token_texts[first] + tail
    return tail[-_CONTEXT:]


def _in_other_tokens(
    tokens: TokenRange, token_texts: Sequence[str], other_texts: Sequence[str]
) -> TokenRange:
    """The other tokens that begin within the characters of `tokens`; may be none."""
    ends = [0, *accumulate(map(len, token_texts))]
    starts = [0, *accumulate(map(len, other_texts))][:-1]
    first = bisect_left(starts, ends[tokens.first])
    return TokenRange(first, bisect_left(starts, ends[tokens.last + 1]) - 1)
