"""Who writes what: a policy is data that `relay.next_turn` and `relay.advance` read."""

from __future__ import annotations

from dataclasses import dataclass

from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.types import Role


@dataclass(frozen=True)
class Policy:
    """A division of labour between the two models.

    Attributes:
        name: As in `policy=`.
        leader: Who begins, and who alone may end the text while the reasoning is relayed.
        answer_by: Who writes the answer after the reasoning.
        cues: What ends a segment of the large model; `None`: it never hands over.
        min_large_tokens: Tokens of the large model before a cue is followed. The paper's 5
            keeps it from handing over on its own first word (arXiv 2602.06454).
        max_small_tokens: Bound of a small segment whose sentence does not end.
    """

    name: str
    leader: Role
    answer_by: Role
    cues: CueTable | None = None
    min_large_tokens: int = 5
    max_small_tokens: int = 128

    @property
    def roles(self) -> frozenset[Role]:
        """The models it can ask."""
        handed = {Role.SMALL} if self.cues else set()
        return frozenset({self.leader, self.answer_by} | handed)


def relay(
    cues: CueTable,
    *,
    answer_by: Role = Role.SMALL,
    min_large_tokens: int = 5,
    max_small_tokens: int = 128,
) -> Policy:
    """RelayGen: cues hand over to the small model, the end of a sentence hands back.

    Source:
        arXiv 2602.06454.
    """
    return Policy("relay", Role.LARGE, answer_by, cues, min_large_tokens, max_small_tokens)


def large() -> Policy:
    """The large model alone: the baseline of accuracy."""
    return Policy("large", Role.LARGE, Role.LARGE)


def small() -> Policy:
    """The small model alone: the baseline of speed."""
    return Policy("small", Role.SMALL, Role.SMALL)
