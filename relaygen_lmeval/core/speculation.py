"""Speculation on plain sequences: which drafts the target keeps, and how many to draft.

The draft model proposes some tokens, the target reads them in one forward and keeps those
that it might as well have written (arXiv 2211.17192). Nothing here knows a model.
"""

from __future__ import annotations

from collections.abc import Sequence


def accept_drafts(drafts: Sequence[int], choices: Sequence[int]) -> int:
    """Count the drafts that are what the target chooses itself.

    Args:
        drafts: Drafted token ids.
        choices: What the target chooses at each of these places.

    Examples:
        >>> accept_drafts([5, 6, 7], [5, 6, 9])
        2
    """
    for n, (draft, choice) in enumerate(zip(drafts, choices, strict=False)):
        if draft != choice:
            return n
    return min(len(drafts), len(choices))


def accept_sampled(target: float, draft: float, mark: float) -> bool:
    """The rejection rule: a drawn token is kept with probability `min(1, target / draft)`.

    With the rest drawn from the positive part of target minus draft, the outcome follows the
    target's distribution exactly.

    Args:
        target: The token's probability by the target.
        draft: Its probability by the draft model, which drew it.
        mark: A uniform number in [0, 1).

    Source:
        Leviathan et al., arXiv 2211.17192, algorithm 1.
    """
    return mark * draft < target


def next_length(n_drafted: int, n_accepted: int, most: int) -> int:
    """How many tokens to draft after a verification: more when all were kept, else fewer.

    It looks at nothing but the request's own past, so sampled texts repeat at any batch size.

    Examples:
        >>> next_length(4, 4, 8), next_length(4, 1, 8), next_length(8, 8, 8)
        (6, 2, 8)
    """
    return min(most, n_drafted + 2 if n_accepted == n_drafted else n_accepted + 1)


class Lookup:
    """Drafts from the text so far: what followed when its last tokens were there before.

    Args:
        longest: Tokens that have to be the same, at most; at least two.

    Source:
        Prompt lookup decoding, github.com/apoorvumang/prompt-lookup-decoding.

    Examples:
        >>> lookup = Lookup()
        >>> lookup.read([1, 2, 3, 4, 1, 2])
        >>> lookup.draft(3)
        [3, 4, 1]
    """

    def __init__(self, longest: int = 3) -> None:
        self._lengths = range(longest, 1, -1)
        self._ids: list[int] = []
        self._follower: dict[tuple[int, ...], int] = {}  # where the token after these last was

    def read(self, ids: Sequence[int]) -> None:
        """Take in the text as it is now; most of it is usually known."""
        known = min(len(self._ids), len(ids))
        while self._ids[:known] != list(ids[:known]):
            known -= 1
        del self._ids[known:]
        for token in ids[known:]:
            for n in self._lengths:
                if n <= len(self._ids):
                    self._follower[tuple(self._ids[-n:])] = len(self._ids)
            self._ids.append(token)

    def draft(self, most: int) -> list[int]:
        """At most so many tokens; none where the last ones are new."""
        for n in self._lengths:
            at = self._follower.get(tuple(self._ids[-n:]))
            if at is not None and at < len(self._ids):
                return self._ids[at : at + most]
        return []
