"""A lane that verifies drafts: its steps write one token or several, the same as it would plain.

To the pacer and the runner it is a lane like any other. Tokens that a step gives are written
one by one, so a cue, a stop string or the end of a budget within them cuts where it would have.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from relaygen_lmeval.core.policy import Move
from relaygen_lmeval.core.speculation import next_length
from relaygen_lmeval.core.timing import Drafts
from relaygen_lmeval.core.types import Turn
from relaygen_lmeval.engines.local.drafts import Drafter
from relaygen_lmeval.engines.local.forward import Feed
from relaygen_lmeval.engines.local.lane import Lane
from relaygen_lmeval.engines.local.row import Row
from relaygen_lmeval.engines.local.verify import Draft, verify
from relaygen_lmeval.errors import ConfigError


class SpeculativeLane(Lane):
    """The target of speculation.

    Args:
        drafter: Proposes tokens.
        most: Tokens it may propose at once.
        *lane: As `Lane` takes it; the forward has to crop.
    """

    def __init__(self, drafter: Drafter, most: int, *lane: Any) -> None:
        super().__init__(*lane)
        self._drafter = drafter
        self._most = most

    def admit(self, move: Move) -> None:
        """See that moves like this one can be made.

        Raises:
            ConfigError: It would have to look at tokens that drafts run ahead of.
        """
        super().admit(move)
        if move.rule.doubt:
            raise ConfigError(
                f"the policy watches how sure the {self.role.value} model is of each token, which "
                "goes not with its speculation: set speculative=off"
            )

    def take(self, turn: Turn) -> Row:
        """Accept a turn; the next step begins it."""
        row = super().take(turn)
        row.n_drafts = self._most
        return row

    def release(self, seq_id: int) -> list[Row]:
        """Forget a request; returns the rows that were being written for it."""
        self._drafter.release(seq_id)
        return super().release(seq_id)

    def _catch_up(self, rows: list[Row]) -> None:
        """Drafts come along with the catch-up: the draft model has just read the same text."""
        began = perf_counter()
        for row in rows:
            row.wait_s, row.n_catch_up = began - row.arrived_s, row.n_unread
        self._advance(rows, began)

    def _decode(self, rows: list[Row]) -> None:
        self._advance(rows, perf_counter())

    def _advance(self, rows: list[Row], began: float) -> None:
        """Draft, read what is unread and the drafts, and write what is kept in every row."""
        drafts = self._drafter.draft(rows, [_wanted(row) for row in rows])
        drafted = perf_counter()
        feeds = [
            Feed(row.track, [*row.unread, *draft.ids])
            for row, draft in zip(rows, drafts, strict=True)
        ]
        logits = self.forward.feed(feeds, 1 + max(len(draft.ids) for draft in drafts))
        blocks = verify(logits, drafts, [row.draw() for row in rows])
        now = perf_counter()
        for row, draft, tokens in zip(rows, drafts, blocks, strict=True):
            if row.ids:
                row.decode_s += now - began
            else:
                row.prefill_s = now - began
            self._keep(row, draft, tokens, now, drafted - began)

    def _keep(self, row: Row, draft: Draft, tokens: list[int], now: float, draft_s: float) -> None:
        n_accepted = len(tokens) - 1
        self.forward.crop(row.track, len(row.track.cached) - len(draft.ids) + n_accepted)
        if draft.ids:
            row.drafts += Drafts(len(draft.ids), n_accepted, 1, draft_s)
            row.n_drafts = next_length(len(draft.ids), n_accepted, self._most)
        for token in tokens:
            self._write(row, token, now)
            if row.done:
                break


def _wanted(row: Row) -> int:
    """Tokens to draft: not beyond the turn's last, which the target writes itself."""
    return min(row.n_drafts, row.turn.max_tokens - len(row.ids) - 1)
