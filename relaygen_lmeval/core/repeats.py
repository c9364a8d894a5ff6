"""Sees that a text has come to repeat itself, as one that ran into its budget often has."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

LONGEST_CYCLE = 32  # tokens that come again and again
N_CYCLES = 4  # so often at least
LEAST = 48  # tokens of repetition: fewer may be meant, as a rule of dashes is


def repeats(tokens: Sequence[Hashable]) -> bool:
    """Whether a text ends in a cycle: one token or a few, again and again.

    Args:
        tokens: Anything that can be compared: token ids, or characters where there are none.

    Examples:
        >>> repeats([5, 8, 9] * 20), repeats(range(100)), repeats([7] * 12)
        (True, False, False)
    """
    return any(
        _has_cycle(tokens[-max(LEAST, N_CYCLES * n) :], n) for n in range(1, LONGEST_CYCLE + 1)
    )


def _has_cycle(tail: Sequence[Hashable], n: int) -> bool:
    return len(tail) >= max(LEAST, N_CYCLES * n) and tail[n:] == tail[:-n]
