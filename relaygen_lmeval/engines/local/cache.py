"""Keys and values of many requests, one row each, in storage that grows by blocks.

Every row has its own length. The rows of a forward lie at the front, so the model reads them
as one view and nothing is copied but when a row moves.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from relaygen_lmeval.engines.local.compiled import varies

BLOCK = 64  # storage and attention width grow in steps of this many tokens


def blocks(n_tokens: int) -> int:
    """`n_tokens` rounded up to whole blocks, in tokens."""
    return -(-n_tokens // BLOCK) * BLOCK


class RowLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """One layer's storage, `[rows, heads, capacity, head_dim]`, and where the forward writes.

    Rows of a forward are `0..n-1`. `positions` has shape `[n, q]`: where each new token goes.
    Right padding writes beyond a row's length; what is there is masked until overwritten.
    """

    is_croppable = True

    def __init__(self, n_rows: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.n_rows = n_rows
        self.width = 0
        self.positions = torch.empty(0, 0, dtype=torch.long)
        self.rows = torch.empty(0, 1, dtype=torch.long)

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate storage like the first keys and values, on their device."""
        self.keys = _storage(key_states, self.n_rows, self.width)
        self.values = _storage(value_states, self.n_rows, self.width)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write `[n, heads, q, head_dim]` and return all that the rows may attend to."""
        if self.keys is None:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None
        assert self.values is not None
        # Written into the storage itself: through a view of it, compiled code would copy all of
        # the view out and back.
        self.keys[self.rows, :, self.positions] = key_states.transpose(1, 2)
        self.values[self.rows, :, self.positions] = value_states.transpose(1, 2)
        n = key_states.shape[0]
        return self.keys[:n, :, : self.width], self.values[:n, :, : self.width]

    def reserve(self, width: int) -> None:
        """Make room for `width` tokens a row."""
        self.width = width
        if self.keys is not None and self.values is not None and width >= self.keys.shape[2]:
            self.keys, self.values = _grown(self.keys, width), _grown(self.values, width)

    def swap(self, a: int, b: int, length: int) -> None:
        """Exchange the first `length` tokens of two rows."""
        if self.keys is not None and self.values is not None:
            for tensor in (self.keys, self.values):
                tensor[[a, b], :, :length] = tensor[[b, a], :, :length]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """The mask is always given; its width is that of the view."""
        return self.width, 0

    def get_seq_length(self) -> int:
        """Rows differ in length; positions are always given."""
        return 0

    def get_max_length(self) -> int:
        """No bound but memory."""
        return -1


class RowCache(Cache):
    """The layers of one model, as the model wants them."""

    def __init__(self, n_layers: int, n_rows: int) -> None:
        self.rows = [RowLayer(n_rows) for _ in range(n_layers)]
        super().__init__(layers=list(self.rows))

    @property
    def holds_something(self) -> bool:
        """Whether a forward has been made, and with it the storage."""
        return self.rows[0].keys is not None

    def reserve(self, width: int) -> None:
        """Make room for `width` tokens a row."""
        for layer in self.rows:
            layer.reserve(width)

    def point(self, positions: torch.Tensor, width: int) -> None:
        """Set where the next forward writes: `positions` `[n, q]`, attention over `width`."""
        rows = torch.arange(positions.shape[0], device=positions.device)[:, None]
        for layer in self.rows:
            layer.width = width
            layer.positions = positions
            layer.rows = rows

    def swap(self, a: int, b: int, length: int) -> None:
        """Exchange two rows, of which the longer has `length` tokens."""
        for layer in self.rows:
            layer.swap(a, b, length)


def _storage(states: torch.Tensor, n_rows: int, width: int) -> torch.Tensor:
    _, heads, _, head_dim = states.shape
    # Zeros, for a masked weight of 0 times a stray NaN would be NaN. One block more than is
    # needed: where all is in use the view is contiguous, and the compiler makes a program of
    # its own for that.
    return _sized(states.new_zeros(n_rows, heads, width + BLOCK, head_dim))


def _grown(old: torch.Tensor, width: int) -> torch.Tensor:
    n_rows, heads, capacity, head_dim = old.shape
    new = old.new_zeros(n_rows, heads, max(width, capacity + capacity // 2) + BLOCK, head_dim)
    new[:, :, :capacity] = old
    return _sized(new)


def _sized(storage: torch.Tensor) -> torch.Tensor:
    """Told to the compiler as storage that grows, and that has other rows in another run."""
    return varies(varies(storage, 2), 0) if len(storage) > 1 else varies(storage, 2)
