"""Where two texts meet: whether reading them joined gives other token ids than reading each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_REACH = 48  # characters before a seam that can change how it reads, amply


def seam_changes(encode: Callable[[str], Sequence[int]], left: str, right: str) -> bool:
    """Whether the token ids around a seam depend on the text being read in one piece.

    Args:
        encode: A text's ids, without special tokens added.
        left: What stands before the seam; only its end is looked at.
        right: What stands after it; only its beginning is.

    Examples:
        >>> seam_changes(str.split, "un", "known")
        True
        >>> seam_changes(str.split, "known ", "so")
        False
    """
    a, b = left[-_REACH:], right[:_REACH]
    return bool(a and b) and list(encode(a + b)) != [*encode(a), *encode(b)]
