"""The least that a run can take: the bare forwards its tokens need, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from relaygen_lmeval.core.timing import Drafts
from relaygen_lmeval.core.types import RelayResult, Role, Segment
from relaygen_lmeval.engines.local.floor import BareForward
from relaygen_lmeval.models.pair import Pair

Key = tuple[Role, int, int]  # model, rows, tokens a row


@dataclass(frozen=True, slots=True)
class Floor:
    """Prices the forwards of a round by what a bare compiled one takes in the same round.

    At batch size `n` every forward is taken to be full, `n` rows at a time. That is out of
    reach of a relay on one device, whose rows are divided between two models at any moment.

    Attributes:
        pair: The models.
        forwards: Those that were needed so far.
        times_s: What they took, all rounds; seconds.
    """

    pair: Pair
    forwards: dict[Key, BareForward] = field(default_factory=dict)
    times_s: dict[Key, list[float]] = field(default_factory=dict)
    fresh: dict[Key, float] = field(default_factory=dict)

    def begin_round(self) -> None:
        """Time anew what is asked for from now on: the machine may have become another."""
        self.fresh.clear()

    def of(self, results: Sequence[RelayResult], n_rows: int) -> float:
        """Seconds: for every segment a catch-up, then a forward a token or a block of drafts."""
        total_s = 0.0
        for role in Role:
            own = [s for result in results for s in result.segments if s.role is role]
            if own:
                total_s += self._of_model(role, own, n_rows)
        return total_s / n_rows

    def _of_model(self, role: Role, own: Sequence[Segment], n_rows: int) -> float:
        n_read = sum(segment.timing.catch_up_tokens for segment in own)
        read_s = self._forward_s(role, n_rows, max(1, round(n_read / len(own))))
        drafts = sum((s.timing.drafts for s in own if s.timing.drafts), Drafts())
        n_plain = sum(map(_n_plain, own))
        total_s = len(own) * read_s + n_plain * self._forward_s(role, n_rows, 1)
        if drafts.n_verified:
            n_block = 1 + round(drafts.n_drafted / drafts.n_verified)
            n_blocks = max(0, drafts.n_verified - sum(s.timing.drafts is not None for s in own))
            total_s += n_blocks * self._forward_s(role, n_rows, n_block)
            total_s += drafts.n_drafted * self._forward_s(Role.SMALL, n_rows, 1)
        return total_s

    def _forward_s(self, role: Role, n_rows: int, n_tokens: int) -> float:
        key = (role, n_rows, n_tokens)
        if key not in self.forwards:
            self.forwards[key] = BareForward(self.pair[role].model, n_rows, n_tokens)
        if key not in self.fresh:
            self.fresh[key] = self.forwards[key].time_s()
            self.times_s.setdefault(key, []).append(self.fresh[key])
        return self.fresh[key]


def _n_plain(segment: Segment) -> int:
    """Tokens with a forward of their own: those of the catch-up and of verifications have none."""
    drafts = segment.timing.drafts
    of_others = drafts.n_accepted + drafts.n_verified if drafts else 1
    return max(0, segment.n_tokens - of_others)
