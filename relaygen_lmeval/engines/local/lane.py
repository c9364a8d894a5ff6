"""A lane: one model, its tokenizer and the rows it is writing. Plain synchronous code.

A turn becomes a row; a row catches up with the text in one forward, then takes part in every
step until its scanner, the end of the text or its number of tokens stops it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from time import perf_counter
from typing import Any

import torch

from relaygen_lmeval.core.doubt import N_BEST, Watch
from relaygen_lmeval.core.policy import Move
from relaygen_lmeval.core.stops import Scanner
from relaygen_lmeval.core.types import Chunk, Role, Turn
from relaygen_lmeval.engines.local.detokenizer import make_detokenizer
from relaygen_lmeval.engines.local.forward import MAX_FEED, Feed, Forward, Track
from relaygen_lmeval.engines.local.judge import choice_ids, n_scored, score
from relaygen_lmeval.engines.local.memory import Spare
from relaygen_lmeval.engines.local.row import Row
from relaygen_lmeval.engines.local.sampling import NOT_FINITE, choose
from relaygen_lmeval.errors import EngineError, RequestError


class Lane:
    """One model and the requests it writes.

    Args:
        role: Which model of the pair it is.
        model: A causal transformers model.
        tokenizer: Its tokenizer.
        forward: The model with room for the requests held at once.
        shares_ids: Whether the partner's token ids mean the same here; else its text is read.
    """

    def __init__(
        self,
        role: Role,
        model: Any,
        tokenizer: Any,
        forward: Forward,
        shares_ids: bool = True,
    ) -> None:
        self.role = role
        self.forward = forward
        self.step_s = 0.0  # time of a recent decode step, seconds
        self._tokenizer = tokenizer
        self._shares_ids = shares_ids
        self._eos = eos_ids(model, tokenizer)
        self._spare = Spare(forward)
        self._tracks: dict[int, Track] = {}
        self._arrived: list[Row] = []
        self._rows: list[Row] = []

    @property
    def n_ready(self) -> int:
        """Rows that the next step would serve."""
        return len(self._rows) + len(self._arrived)

    def admit(self, move: Move) -> None:
        """See that moves like this one can be made.

        Raises:
            ConfigError: They cannot.
        """
        if move.judge:
            choice_ids(self._tokenizer, move.judge)

    def follow(self, turn: Turn) -> Track:
        """Take in what was written before a turn; the track is the request's from now on."""
        request = turn.request
        track = self._tracks.get(request.seq_id)
        if track is None:
            track = Track(list(request.prompts[self.role].token_ids))
            self._tracks[request.seq_id] = track
        self._read(track, turn.chunks)
        if not track.ids:
            raise EngineError(
                f"request {request.seq_id}: the prompt of the {self.role.value} model has no "
                "token; give it a text, or a tokenizer that adds a first token"
            )
        return track

    def take(self, turn: Turn) -> Row:
        """Accept a turn; the next step begins it."""
        track = self.follow(turn)
        self.forget(track, track.ids)
        row = Row(
            turn,
            track,
            Scanner(turn.rule, turn.before),
            make_detokenizer(self._tokenizer, track.ids),
            self._eos,
            whole=not self._shares_ids,
            arrived_s=perf_counter(),
            watch=Watch(turn.rule.doubt) if turn.rule.doubt else None,
        )
        self._arrived.append(row)
        return row

    def forget(self, track: Track, ids: list[int]) -> None:
        """Keep of the cache what `ids` begin with, but for their last token, which is read anew."""
        known = min(common_prefix(track.cached, ids), len(ids) - 1)
        if known < len(track.cached):
            self.forward.crop(track, known)

    def release(self, seq_id: int) -> list[Row]:
        """Forget a request; returns the rows that were being written for it."""
        track = self._tracks.pop(seq_id, None)
        if track is None:
            return []
        dropped = [row for row in (*self._rows, *self._arrived) if row.track is track]
        self._rows = [row for row in self._rows if row.track is not track]
        self._arrived = [row for row in self._arrived if row.track is not track]
        self.forward.release(track)
        return dropped

    def clear(self) -> list[Row]:
        """Give up all rows, after a failure; returns them."""
        rows, self._rows, self._arrived = self._rows + self._arrived, [], []
        return rows

    def step(self) -> list[Row]:
        """Begin what arrived, or write on in every row; returns the rows that are done."""
        if self._arrived:
            for group in _groups([row for row in self._arrived if not row.turn.judge]):
                self._spare.write(group, self._catch_up)
            for row in self._arrived:
                if row.turn.judge:
                    self._spare.write([row], self._judge)
            self._rows += self._arrived
            self._arrived = []
        elif self._rows:
            began = perf_counter()
            self._spare.write(self._rows, self._decode)
            self.step_s = perf_counter() - began
        done = [row for row in self._rows if row.done]
        if done:
            self._rows = [row for row in self._rows if not row.done]
        return done

    def _read(self, track: Track, chunks: Sequence[Chunk]) -> None:
        """Take in what was written since this model was last asked."""
        for chunk in chunks[track.n_chunks :]:
            if self._shares_ids or chunk.role is self.role:
                track.ids.extend(chunk.token_ids)
            else:
                track.ids.extend(self._encode(chunk.text))
        track.n_chunks = len(chunks)

    def _catch_up(self, rows: list[Row]) -> None:
        began = perf_counter()
        feeds = [Feed(row.track, row.unread) for row in rows]
        tokens = self._choose(rows, self.forward.feed(feeds)[:, -1])
        now = perf_counter()
        for row, feed, token in zip(rows, feeds, tokens, strict=True):
            row.wait_s, row.prefill_s = began - row.arrived_s, now - began
            row.n_catch_up = len(feed.ids)
            self._write(row, token, now)

    def _decode(self, rows: list[Row]) -> None:
        """One token in every row."""
        began = perf_counter()
        feeds = [Feed(row.track, row.unread) for row in rows]
        tokens = self._choose(rows, self.forward.feed(feeds)[:, -1])
        now = perf_counter()
        for row, token in zip(rows, tokens, strict=True):
            row.decode_s += now - began
            self._write(row, token, now)

    def _choose(self, rows: list[Row], logits: torch.Tensor) -> list[int | None]:
        """One token a row from logits `[n, V]`; `None` where the row's model is not sure."""
        tokens: list[int | None] = list(choose(logits, [row.draw() for row in rows]))
        watched = [n for n, row in enumerate(rows) if row.watch and tokens[n] != NOT_FINITE]
        if watched:
            best = logits[watched].float().log_softmax(-1)
            for n, logprobs in zip(watched, _best(best).tolist(), strict=True):
                watch = rows[n].watch
                if watch and watch.doubts(logprobs):
                    tokens[n] = None
        return tokens

    def _judge(self, rows: list[Row]) -> None:
        """Read a step that is no part of the text yet, and say what it is worth."""
        began = perf_counter()
        [row] = rows
        judge, step = row.turn.judge, row.turn.step
        assert judge is not None
        assert step is not None
        step_ids = list(step.token_ids) if self._shares_ids else self._encode(step.text)
        question = self._encode(judge.question) if judge.question else []
        unread = row.track.ids[len(row.track.cached) :]
        feed = Feed(row.track, [*unread, *step_ids, *question])
        logits = self.forward.feed([feed], n_scored(judge, step_ids))[0]
        worth = score(logits, judge, step_ids, choice_ids(self._tokenizer, judge))
        row.wait_s, row.prefill_s = began - row.arrived_s, perf_counter() - began
        row.n_catch_up = len(unread) + len(step_ids)
        if isfinite(worth):
            row.judge(worth)
        else:
            self._write(row, NOT_FINITE, 0.0)

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _write(self, row: Row, token: int | None, now: float) -> None:
        if token is None:
            row.doubt()
            return
        if token < 0:
            row.track.spoilt = True
            row.failure = RequestError(
                f"request {row.turn.request.seq_id}, {self.role.value} model: its logits are not "
                f"finite (NaN or infinity) after {len(row.track.cached)} tokens; load it in "
                "dtype=float32 or bfloat16, not float16"
            )
            return
        row.write(token, now)


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


def _best(logprobs: torch.Tensor) -> torch.Tensor:
    """The highest of `[n, V]`, best first."""
    return logprobs.topk(min(N_BEST, logprobs.shape[-1])).values


def _groups(rows: list[Row]) -> list[list[Row]]:
    """Rows to prefill in one forward each: of like length, so that little is padding."""
    groups: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: row.n_unread):
        group = groups[-1] if groups else []
        n = row.n_unread
        if group and n <= 2 * group[0].n_unread + 16 and n * (len(group) + 1) <= MAX_FEED:
            group.append(row)
        else:
            groups.append([row])
    return groups
