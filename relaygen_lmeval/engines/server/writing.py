"""A turn as it is written by a server: tokens in, and the one place that says where it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from relaygen_lmeval.core.stops import Scanner, Stop
from relaygen_lmeval.core.types import EndedBy, Turn
from relaygen_lmeval.engines.server.wire import Reply


@dataclass(frozen=True, slots=True)
class Written:
    """One token, or in a stream without ids one event: what it reads as, and when it came.

    Attributes:
        id: The token's id; `None` where the server does not tell it.
        text: What it adds to the text.
        stamp_s: `time.perf_counter()` when it was known, seconds.
    """

    id: int | None
    text: str
    stamp_s: float


@dataclass(frozen=True, slots=True)
class End:
    """Where and why a turn ended: the first `n_kept` of its tokens are kept."""

    reason: EndedBy
    matched: str | None
    n_kept: int


class Writing:
    """Reads what a server wrote for a turn, in one reply or many, until the turn ends.

    Args:
        turn: What was asked.
        eos: Token ids that end a text.
        whole_characters: Whether a cut in mid-text must not split a character, as where text
            is handed over.
        make_step: Given the turn's ids so far, gives what turns the next id into text.
    """

    def __init__(
        self,
        turn: Turn,
        *,
        eos: frozenset[int],
        whole_characters: bool,
        make_step: Callable[[Sequence[int]], Callable[[int], str]],
    ) -> None:
        self.turn = turn
        self.tokens: list[Written] = []
        self.end: End | None = None
        self.n_given_back = 0  # beyond those in `tokens`
        self._eos = eos
        self._whole_characters = whole_characters
        self._make_step = make_step
        self._n_before_round = 0
        self._start()

    @property
    def ids(self) -> list[int]:
        """The token ids so far; those that are unknown are left out."""
        return [token.id for token in self.tokens if token.id is not None]

    @property
    def cue_waits(self) -> bool:
        """Whether a cue waits for `min_tokens`."""
        return self._scanner.cue_waits

    def begin_round(self) -> None:
        """Remember this place: a reply that breaks off is dropped back to it."""
        self._n_before_round = len(self.tokens)

    def drop_round(self) -> None:
        """Forget the reply that broke off."""
        if len(self.tokens) > self._n_before_round or self.end:
            self.tokens = self.tokens[: self._n_before_round]
            self.end = None
            self._start()

    def take(self, reply: Reply, stamps_s: Sequence[float]) -> None:
        """Read the tokens of a reply or an event, unless the turn has ended before them."""
        if reply.ids is None:
            if reply.text:
                self._add(None, reply.text, stamps_s[-1])
            return
        for n, (token, stamp_s) in enumerate(zip(reply.ids, stamps_s, strict=False)):
            if self.end:
                self.n_given_back += len(reply.ids) - n
                return
            self._take_id(token, stamp_s)

    def finish(self, reply: Reply) -> None:
        """Take in why the server stopped, where the turn goes on for all that was read."""
        if self.end is not None:
            return
        nothing_new = len(self.tokens) == self._n_before_round
        if reply.ended == "length" and nothing_new:  # no room is left in the server
            self._stop("length", None, self._n_whole())
        elif reply.ended == "eos" or nothing_new:
            self._end_of_text()

    def _start(self) -> None:
        self._scanner = Scanner(self.turn.rule, self.turn.before)
        self._step = self._make_step(self.ids)
        for token in self.tokens:
            self._scanner.feed(token.text)

    def _take_id(self, token: int, stamp_s: float) -> None:
        if token in self._eos:
            self.n_given_back += 1
            self._end_of_text()
        else:
            self._add(token, self._step(token), stamp_s)

    def _add(self, token: int | None, text: str, stamp_s: float) -> None:
        self.tokens.append(Written(token, text, stamp_s))
        if stop := self._scanner.feed(text):
            self._stop(stop.reason, stop.matched, self._n_before(stop))
        elif len(self.tokens) >= self.turn.max_tokens:
            self._stop("length", None, self._n_whole())

    def _end_of_text(self) -> None:
        stop = self._scanner.finish()
        at_boundary = stop is not None and stop.reason == "boundary"
        self._stop("boundary" if at_boundary else "eos", None, len(self.tokens))

    def _stop(self, reason: EndedBy, matched: str | None, n_kept: int) -> None:
        self.end = End(reason, matched, n_kept)

    def _n_before(self, stop: Stop) -> int:
        """Tokens up to the one that holds the character before the stop."""
        position = 0
        for n, token in enumerate(self.tokens, start=1):
            position += len(token.text)
            if position >= stop.end:
                return n
        return len(self.tokens)

    def _n_whole(self) -> int:
        """Tokens to keep at a cut in mid-text."""
        n = len(self.tokens)
        while self._whole_characters and n and not self.tokens[n - 1].text:
            n -= 1
        return n or len(self.tokens)
