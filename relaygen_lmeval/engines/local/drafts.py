"""Who drafts: the small model, or the text itself."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple, Protocol

import torch

from relaygen_lmeval.core.speculation import Lookup
from relaygen_lmeval.engines.local.forward import Feed
from relaygen_lmeval.engines.local.lane import Lane
from relaygen_lmeval.engines.local.row import Row
from relaygen_lmeval.engines.local.sampling import Draw, odds, pick, processed
from relaygen_lmeval.engines.local.verify import Draft

# A row drafts on while the chance that all its drafts are kept, by the draft model's own
# probabilities, is at least this: about what a draft costs, in forwards of the target.
WORTH = 0.4


class Drafter(Protocol):
    """Proposes tokens for rows of the target."""

    def draft(self, rows: Sequence[Row], most: Sequence[int]) -> list[Draft]:
        """Draft up to `most[i]` tokens after what row `i` has written."""

    def release(self, seq_id: int) -> None:
        """Forget a request."""


class SmallDrafter:
    """The small model drafts, on the very cache it relays with: it is warm at every handoff.

    Args:
        lane: The small model's lane, on the target's device and with its tokenizer.
    """

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    def draft(self, rows: Sequence[Row], most: Sequence[int]) -> list[Draft]:
        """Draft up to `most[i]` tokens after what row `i` has written."""
        writers = [_Writer(row.draw(), n) for row, n in zip(rows, most, strict=True)]
        live = [(self._catch_up(row), w) for row, w in zip(rows, writers, strict=True) if w.open]
        # All rows step on until the last has done: taking one out would move the others.
        while any(writer.open for _, writer in live):
            logits = self._lane.forward.feed([feed for feed, _ in live])[:, -1]
            drawn = _draw(logits, [writer.draw for _, writer in live])
            for (feed, _), token in zip(live, drawn, strict=True):
                feed.track.spoilt |= not isfinite(token.chance)
            live = [
                (Feed(feed.track, [writer.add(token)]), writer)
                for (feed, writer), token in zip(live, drawn, strict=True)
            ]
        return [writer.draft for writer in writers]

    def release(self, seq_id: int) -> None:
        """Forget a request."""
        self._lane.release(seq_id)

    def _catch_up(self, row: Row) -> Feed:
        """What the small model has yet to read of a row; false drafts are forgotten."""
        track = self._lane.follow(row.turn)
        ids = [*track.ids, *row.ids]
        self._lane.forget(track, ids)
        return Feed(track, ids[len(track.cached) :])


class LookupDrafter:
    """The text so far drafts: what followed when its last tokens were there before."""

    def __init__(self) -> None:
        self._lookups: dict[int, Lookup] = {}

    def draft(self, rows: Sequence[Row], most: Sequence[int]) -> list[Draft]:
        """Draft up to `most[i]` tokens after what row `i` has written."""
        return [Draft(self._look_up(row, n), []) for row, n in zip(rows, most, strict=True)]

    def release(self, seq_id: int) -> None:
        """Forget a request."""
        self._lookups.pop(seq_id, None)

    def _look_up(self, row: Row, most: int) -> list[int]:
        lookup = self._lookups.setdefault(row.turn.request.seq_id, Lookup())
        lookup.read([*row.track.ids, *row.ids])
        return lookup.draft(most) if most > 0 else []


class _Drawn(NamedTuple):
    """A proposed token, its probability, and the distribution it was drawn from, if it was."""

    token: int
    chance: float
    odds: torch.Tensor | None


class _Writer:
    """The drafts of one row, as long as they are worth it."""

    def __init__(self, draw: Draw, most: int) -> None:
        self.draw = draw  # of the next token
        self.draft = Draft([], [])
        self._most = most
        self._chance = 1.0

    @property
    def open(self) -> bool:
        """Whether another draft is wanted."""
        return len(self.draft.ids) < self._most and self._chance >= WORTH

    def add(self, drawn: _Drawn) -> int:
        """Take in the next proposal; one that is not wanted any more, or NaN, is only fed on."""
        if not isfinite(drawn.chance):
            self._chance = 0.0
        elif self.open:
            self.draft.ids.append(drawn.token)
            if drawn.odds is not None:
                self.draft.odds.append(drawn.odds)
        self._chance *= drawn.chance
        self.draw = self.draw.after([drawn.token])
        return drawn.token


def _draw(logits: torch.Tensor, draws: Sequence[Draw]) -> list[_Drawn]:
    """Propose a token a row, from raw logits `[n, V]`."""
    if not all(draw.plain for draw in draws):
        return [_draw_row(scores, draw) for scores, draw in zip(logits, draws, strict=True)]
    chances, ids = logits.float().softmax(-1).max(-1)
    return [
        _Drawn(token, chance, None)
        for token, chance in zip(ids.tolist(), chances.tolist(), strict=True)
    ]


def _draw_row(scores: torch.Tensor, draw: Draw) -> _Drawn:
    if draw.sampling.greedy:
        best, token = processed(scores, draw).softmax(-1).max(-1)
        return _Drawn(int(token), float(best), None)
    spread = odds(scores, draw)
    token = pick(spread, draw.mark(" draft"))
    return _Drawn(int(token), float(spread[token]), spread)
