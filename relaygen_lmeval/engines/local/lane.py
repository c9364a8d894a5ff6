"""A lane: one model, its tokenizer and the rows it is writing. Plain synchronous code.

A turn becomes a row; a row catches up with the text in one forward, then takes part in every
step until its scanner, the end of the text or its number of tokens stops it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.stops import Scanner
from relaygen_lmeval.core.types import Chunk, EndedBy, Role, Timing, Turn
from relaygen_lmeval.engines.local.detokenizer import Detokenizer, make_detokenizer
from relaygen_lmeval.engines.local.forward import MAX_FEED, Feed, Forward, Track, make_forward
from relaygen_lmeval.engines.local.sampling import Draw, choose
from relaygen_lmeval.errors import EngineError


@dataclass(eq=False)
class Row:
    """A turn that is being written."""

    turn: Turn
    track: Track
    scanner: Scanner
    detokenizer: Detokenizer
    arrived_s: float
    wait_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    n_catch_up: int = 0
    ids: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    stamps_s: list[float] = field(default_factory=list)
    chunk: Chunk | None = None


class Lane:
    """One model and the requests it writes.

    Args:
        role: Which model of the pair it is.
        model: A causal transformers model.
        tokenizer: Its tokenizer.
        n_rows: How many requests may be held at once.
        cues: What ends its turns where they ask for cues.
        shares_ids: Whether the partner's token ids mean the same here; else its text is read.
        compiled: Whether the model's steps are compiled, here and now.
    """

    def __init__(
        self,
        role: Role,
        model: Any,
        tokenizer: Any,
        *,
        n_rows: int,
        cues: CueTable | None = None,
        shares_ids: bool = True,
        compiled: bool = False,
    ) -> None:
        self.role = role
        self.step_s = 0.0  # time of a recent decode step, seconds
        self._tokenizer = tokenizer
        self._forward: Forward = make_forward(model, n_rows, compiled=compiled)
        self._cues = cues
        self._shares_ids = shares_ids
        self._eos = eos_ids(model, tokenizer)
        self._tracks: dict[int, Track] = {}
        self._arrived: list[Row] = []
        self._rows: list[Row] = []

    @property
    def n_ready(self) -> int:
        """Rows that the next step would serve."""
        return len(self._rows) + len(self._arrived)

    def take(self, turn: Turn) -> Row:
        """Accept a turn; the next step begins it."""
        track = self._tracks.get(turn.request.seq_id)
        if track is None:
            prompt = turn.request.prompts[self.role]
            track = self._tracks[turn.request.seq_id] = Track(list(prompt.token_ids))
        self._read(track, turn.chunks)
        if not track.ids:
            raise EngineError(
                f"request {turn.request.seq_id}: the prompt of the {self.role.value} model has no "
                "token; give it a text, or a tokenizer that adds a first token"
            )
        scanner = Scanner(turn.rule, self._cues, turn.before)
        detokenizer = make_detokenizer(self._tokenizer, track.ids)
        row = Row(turn, track, scanner, detokenizer, perf_counter())
        self._arrived.append(row)
        return row

    def release(self, seq_id: int) -> list[Row]:
        """Forget a request; returns the rows that were being written for it."""
        track = self._tracks.pop(seq_id, None)
        if track is None:
            return []
        dropped = [row for row in (*self._rows, *self._arrived) if row.track is track]
        self._rows = [row for row in self._rows if row.track is not track]
        self._arrived = [row for row in self._arrived if row.track is not track]
        self._forward.release(track)
        return dropped

    def clear(self) -> list[Row]:
        """Give up all rows, after a failure; returns them."""
        rows, self._rows, self._arrived = self._rows + self._arrived, [], []
        return rows

    def step(self) -> list[Row]:
        """Begin what arrived, or write one token in every row; returns the rows that are done."""
        if self._arrived:
            for group in _groups(self._arrived):
                self._catch_up(group)
            self._rows += self._arrived
            self._arrived = []
        elif self._rows:
            self._decode()
        done = [row for row in self._rows if row.chunk is not None]
        self._rows = [row for row in self._rows if row.chunk is None]
        return done

    def _read(self, track: Track, chunks: Sequence[Chunk]) -> None:
        """Take in what was written since this model was last asked."""
        for chunk in chunks[track.n_chunks :]:
            if self._shares_ids or chunk.role is self.role:
                track.ids.extend(chunk.token_ids)
            else:
                track.ids.extend(self._tokenizer.encode(chunk.text, add_special_tokens=False))
        track.n_chunks = len(chunks)
        known = min(common_prefix(track.cached, track.ids), len(track.ids) - 1)
        if known < len(track.cached):
            self._forward.crop(track, max(known, 0))

    def _catch_up(self, rows: list[Row]) -> None:
        began = perf_counter()
        feeds = [Feed(row.track, row.track.ids[len(row.track.cached) :]) for row in rows]
        tokens = choose(self._forward.feed(feeds), [_draw(row) for row in rows])
        now = perf_counter()
        for row, feed, token in zip(rows, feeds, tokens, strict=True):
            row.wait_s, row.prefill_s, row.n_catch_up = (
                began - row.arrived_s,
                now - began,
                len(feed.ids),
            )
            self._accept(row, token, now)

    def _decode(self) -> None:
        began = perf_counter()
        feeds = [Feed(row.track, [row.ids[-1]]) for row in self._rows]
        tokens = choose(self._forward.feed(feeds), [_draw(row) for row in self._rows])
        now = perf_counter()
        self.step_s = now - began
        for row, token in zip(self._rows, tokens, strict=True):
            row.decode_s += now - began
            self._accept(row, token, now)

    def _accept(self, row: Row, token: int, now: float) -> None:
        """Add a token to a row and see whether the row is done."""
        if token < 0:
            raise EngineError(
                f"request {row.turn.request.seq_id}: the {self.role.value} model's logits are not "
                "finite after "
                f"{len(row.track.cached)} tokens; load it in dtype=float32 or bfloat16, not float16"
            )
        if token in self._eos:
            stop = row.scanner.finish()
            at_boundary = stop is not None and stop.reason == "boundary"
            self._end(row, "boundary" if at_boundary else "eos", None, len(row.ids), given_back=1)
            return
        row.ids.append(token)
        row.texts.append(row.detokenizer.step(token))
        row.stamps_s.append(now)
        if stop := row.scanner.feed(row.texts[-1]):
            self._end(row, stop.reason, stop.matched, _n_kept(row.texts, stop.end))
        elif len(row.ids) >= row.turn.max_tokens:
            self._end(row, "length", None, self._n_whole(row.texts))

    def _n_whole(self, texts: list[str]) -> int:
        """Tokens to keep at a cut in mid-text; where text is handed over, no half character."""
        n = len(texts)
        while not self._shares_ids and n and not texts[n - 1]:
            n -= 1
        return n or len(texts)

    def _end(
        self, row: Row, reason: EndedBy, matched: str | None, n_kept: int, *, given_back: int = 0
    ) -> None:
        timing = Timing(
            wait_s=row.wait_s,
            prefill_s=row.prefill_s,
            decode_s=row.decode_s,
            catch_up_tokens=row.n_catch_up,
            given_back_tokens=len(row.ids) - n_kept + given_back,
            stamps_s=tuple(row.stamps_s[:n_kept]),
        )
        row.chunk = Chunk(
            role=self.role,
            phase=row.turn.phase,
            text="".join(row.texts[:n_kept]),
            token_ids=tuple(row.ids[:n_kept]),
            n_tokens=n_kept,
            ended_by=reason,
            matched=matched,
            timing=timing,
        )


def eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every id that ends a text: the generation settings' and the tokenizer's."""
    listed = getattr(model.generation_config, "eos_token_id", None)
    ids = listed if isinstance(listed, list) else [listed]
    return frozenset(i for i in (*ids, tokenizer.eos_token_id) if i is not None)


def common_prefix(a: list[int], b: list[int]) -> int:
    """How many tokens two texts begin alike."""
    if a == b[: len(a)]:
        return len(a)
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


def _n_kept(texts: list[str], end: int) -> int:
    """Tokens up to the one that holds the character before `end`."""
    position = 0
    for n, text in enumerate(texts, start=1):
        position += len(text)
        if position >= end:
            return n
    return len(texts)


def _draw(row: Row) -> Draw:
    sampling = row.turn.request.sampling
    penalised = sampling.repetition_penalty != 1.0  # the one setting that looks at the text
    ids = [*row.track.ids, *row.ids] if penalised else []
    return Draw(sampling, ids, row.turn.n_before + len(row.ids))


def _groups(rows: list[Row]) -> list[list[Row]]:
    """Rows to prefill in one forward each: of like length, so that little is padding."""
    groups: list[list[Row]] = []
    for row in sorted(rows, key=_n_unread):
        group = groups[-1] if groups else []
        n = _n_unread(row)
        if group and n <= 2 * _n_unread(group[0]) + 16 and n * (len(group) + 1) <= MAX_FEED:
            group.append(row)
        else:
            groups.append([row])
    return groups


def _n_unread(row: Row) -> int:
    return len(row.track.ids) - len(row.track.cached)
