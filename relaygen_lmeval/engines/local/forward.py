"""Feeding token ids to a transformers model and reading the next-token logits.

Two ways with one face: many ragged rows in one forward (`ragged.py`), or, for a model whose
cache cannot be cut and shared, one row at a time on the cache it brings (`rowwise.py`).
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch

MAX_FEED = 4096  # tokens, padding included, of one prefill forward: bounds its memory


@dataclass(eq=False)
class Track:
    """One request as a model knows it.

    Attributes:
        ids: All token ids so far, in this model's tokenizer.
        cached: The ids whose keys and values are held.
        n_chunks: How many chunks of the relay `ids` holds.
        slot: Its row in the storage.
        spoilt: Keys or values are not finite; masked ones would still make a sum NaN.
    """

    ids: list[int]
    cached: list[int] = field(default_factory=list)
    n_chunks: int = 0
    slot: int = -1
    spoilt: bool = False


class Feed(NamedTuple):
    """Ids that a model reads next for one request; they follow what is cached."""

    track: Track
    ids: list[int]


class Forward(Protocol):
    """A model with the cached rows of its requests."""

    crops: bool
    """Whether a cut is free; where not, it means reading the text anew."""

    @property
    def kv_bytes(self) -> int:
        """What keys and values take now, in storage that stays."""

    def feed(self, feeds: list[Feed], n_last: int = 1) -> torch.Tensor:
        """Read at least one token a row.

        Returns:
            `[len(feeds), n_last, V]`: logits of the token after each of the last `n_last` of a
            row, which has to be fed no fewer unless earlier ones are cached.
        """

    def crop(self, track: Track, length: int) -> None:
        """Forget what is cached beyond `length` tokens."""

    def release(self, track: Track) -> None:
        """Free the row."""


def cache_argument(model: Any) -> str | None:
    """The name of the forward's cache: transformers 5 renames `past_key_values`."""
    names = inspect.signature(model.forward).parameters
    return next((name for name in ("cache", "past_key_values") if name in names), None)
