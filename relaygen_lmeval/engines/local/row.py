"""A turn that is being written, token by token, up to its chunk."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from relaygen_lmeval.core.doubt import Watch
from relaygen_lmeval.core.stops import Scanner
from relaygen_lmeval.core.timing import Drafts, Timing
from relaygen_lmeval.core.types import Chunk, EndedBy, Turn
from relaygen_lmeval.engines.local.detokenizer import Detokenizer
from relaygen_lmeval.engines.local.forward import Track
from relaygen_lmeval.engines.local.sampling import Draw
from relaygen_lmeval.errors import RequestError


@dataclass(eq=False)
class Row:
    """A turn that is being written.

    Attributes:
        turn: What was asked.
        track: The request as the model knows it.
        scanner: Says where the turn stops.
        detokenizer: Says what each token adds to the text.
        eos: Ids that end the text.
        watch: Says where it ends because the model is not sure.
        whole: Whether a cut must not fall within a character: the text is handed over.
        ids: Tokens written so far, those included that may be given back.
        n_drafts: How many tokens to draft next, where the lane drafts.
        chunk: The outcome, once the row is done.
        failure: The outcome of a row that cannot be finished.
    """

    turn: Turn
    track: Track
    scanner: Scanner
    detokenizer: Detokenizer
    eos: frozenset[int]
    whole: bool
    arrived_s: float
    watch: Watch | None = None
    wait_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    n_catch_up: int = 0
    drafts: Drafts = field(default_factory=Drafts)
    ids: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    stamps_s: list[float] = field(default_factory=list)
    n_drafts: int = 0
    chunk: Chunk | None = None
    failure: RequestError | None = None

    @property
    def done(self) -> bool:
        """Whether nothing more is written in it."""
        return self.chunk is not None or self.failure is not None

    @property
    def unread(self) -> list[int]:
        """The ids that the model has yet to read: a prompt, or the token written last."""
        n_cached = len(self.track.cached)
        if self.ids and n_cached >= len(self.track.ids):
            return self.ids[n_cached - len(self.track.ids) :]
        return [*self.track.ids[n_cached:], *self.ids]

    @property
    def n_unread(self) -> int:
        """Tokens that the model has to read before it writes."""
        return len(self.track.ids) - len(self.track.cached)

    def draw(self) -> Draw:
        """What decides the next token."""
        sampling = self.turn.request.sampling
        penalised = sampling.repetition_penalty != 1.0  # the one setting that looks at the text
        ids = [*self.track.ids, *self.ids] if penalised else []
        return Draw(sampling, ids, self.turn.n_before + len(self.ids))

    def write(self, token: int, now: float) -> None:
        """Add a token and see whether the turn is done.

        Args:
            token: Its id.
            now: `time.perf_counter()` when it was known, seconds.
        """
        if token in self.eos:
            stop = self.scanner.finish()
            at_boundary = stop is not None and stop.reason == "boundary"
            self._end("boundary" if at_boundary else "eos", None, len(self.ids), given_back=1)
            return
        self.ids.append(token)
        self.texts.append(self.detokenizer.step(token))
        self.stamps_s.append(now)
        if stop := self.scanner.feed(self.texts[-1]):
            self._end(stop.reason, stop.matched, self._n_kept(stop.end))
        elif len(self.ids) >= self.turn.max_tokens:
            self._end("length", None, self._n_whole())

    def doubt(self) -> None:
        """End the turn before the token that was chosen."""
        self._end("doubt", None, len(self.ids), given_back=1)

    def judge(self, score: float) -> None:
        """End the turn with a score, nothing being written."""
        self._end("judged", None, 0)
        assert self.chunk is not None
        self.chunk = replace(self.chunk, score=score)

    def _n_kept(self, end: int) -> int:
        """Tokens up to the one that holds the character before `end`."""
        position = 0
        for n, text in enumerate(self.texts, start=1):
            position += len(text)
            if position >= end:
                return n
        return len(self.texts)

    def _n_whole(self) -> int:
        """Tokens to keep at a cut in mid-text."""
        n = len(self.texts)
        while self.whole and n and not self.texts[n - 1]:
            n -= 1
        return n or len(self.texts)

    def _end(
        self, reason: EndedBy, matched: str | None, n_kept: int, *, given_back: int = 0
    ) -> None:
        timing = Timing(
            wait_s=self.wait_s,
            prefill_s=self.prefill_s,
            decode_s=self.decode_s,
            catch_up_tokens=self.n_catch_up,
            given_back_tokens=len(self.ids) - n_kept + given_back,
            stamps_s=tuple(self.stamps_s[:n_kept]),
            drafts=self.drafts if self.drafts.n_verified else None,
        )
        self.chunk = Chunk(
            role=self.turn.role,
            phase=self.turn.phase,
            text="".join(self.texts[:n_kept]),
            token_ids=tuple(self.ids[:n_kept]),
            n_tokens=n_kept,
            ended_by=reason,
            matched=matched,
            timing=timing,
        )
