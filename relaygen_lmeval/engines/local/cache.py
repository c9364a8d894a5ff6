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
WHOLE = 2**28  # bytes: below this, room is made at once for the longest text the model can read


def blocks(n_tokens: int) -> int:
    """`n_tokens` rounded up to whole blocks, in tokens."""
    return -(-n_tokens // BLOCK) * BLOCK


class Place:
    """Where a forward writes and what it sees; one for all layers.

    Attributes:
        positions: `[n, q]`: the column of each new token.
        rows: `[n, 1]`: the numbers of the rows.
        width: Columns that are looked at.
    """

    def __init__(self) -> None:
        self.positions = torch.empty(0, 0, dtype=torch.long)
        self.rows = torch.empty(0, 1, dtype=torch.long)
        self.width = 0


class RowLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """One layer's storage, `[rows, heads, capacity, head_dim]`.

    Rows of a forward are `0..n-1`. Right padding writes beyond a row's length; what is there is
    masked until overwritten.
    """

    is_croppable = True

    def __init__(
        self, n_rows: int, place: Place, capacity: int | None, longest: int | None = None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.n_rows = n_rows
        self.place = place
        self.capacity = capacity  # tokens a row, where it never grows
        self.longest = longest  # tokens a row, beyond which it never grows

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate storage like the first keys and values, on their device."""
        self.keys, self.values = self._storage(key_states), self._storage(value_states)
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
        rows, positions = self.place.rows, self.place.positions
        self.keys[rows, :, positions] = key_states.transpose(1, 2)
        self.values[rows, :, positions] = value_states.transpose(1, 2)
        n, width = key_states.shape[0], self.place.width
        return self.keys[:n, :, :width], self.values[:n, :, :width]

    def reserve(self, width: int) -> None:
        """Make room for `width` tokens a row."""
        if self.keys is not None and self.values is not None and width >= self.keys.shape[2]:
            longest = self.longest
            self.keys, self.values = (
                _grown(self.keys, width, longest),
                _grown(self.values, width, longest),
            )

    def wipe(self, row: int) -> None:
        """Leave nothing of a row."""
        if self.keys is not None and self.values is not None:
            self.keys[row] = 0
            self.values[row] = 0

    def swap(self, a: int, b: int, length: int | None) -> None:
        """Exchange the first `length` tokens of two rows; `None`: all of them."""
        if self.keys is not None and self.values is not None:
            for tensor in (self.keys, self.values):
                tensor[[a, b], :, :length] = tensor[[b, a], :, :length]

    def _storage(self, states: torch.Tensor) -> torch.Tensor:
        _, heads, _, head_dim = states.shape
        # Zeros, for a masked weight of 0 times a stray NaN would be NaN. One block more than is
        # needed: where all is in use the view is contiguous, and the compiler makes a program of
        # its own for that.
        width = (self.capacity or self.place.width) + BLOCK
        storage = states.new_zeros(self.n_rows, heads, width, head_dim)
        # A size that the compiler need not ask for at every step saves time, layer by layer.
        return storage if self.capacity else _sized(storage)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """The mask is always given; its width is that of the view."""
        return self.place.width, 0

    def get_seq_length(self) -> int:
        """Rows differ in length; positions are always given."""
        return 0

    def get_max_length(self) -> int:
        """No bound but memory."""
        return -1


class RowCache(Cache):
    """The layers of one model, as the model wants them.

    Args:
        n_layers: How many hold keys and values.
        n_rows: How many requests may be held at once.
        capacity: Tokens a row for which room is made at once; `None`: it grows.
        longest: Tokens a row that are ever asked for; room beyond is not made in advance.
    """

    def __init__(
        self,
        n_layers: int,
        n_rows: int,
        capacity: int | None = None,
        longest: int | None = None,
    ) -> None:
        self._place = Place()
        self._width = 0
        self.rows = [RowLayer(n_rows, self._place, capacity, longest) for _ in range(n_layers)]
        super().__init__(layers=list(self.rows))

    @property
    def n_bytes(self) -> int:
        """What the storage takes."""
        return sum(
            tensor.nbytes
            for layer in self.rows
            for tensor in (layer.keys, layer.values)
            if tensor is not None
        )

    @property
    def holds_something(self) -> bool:
        """Whether a forward has been made, and with it the storage."""
        return self.rows[0].keys is not None

    def reserve(self, width: int) -> None:
        """Make room for `width` tokens a row."""
        if width > self._width:
            for layer in self.rows:
                layer.reserve(width)
            self._width = width  # last, for there may be no memory for some layer

    def point(self, positions: torch.Tensor, width: int) -> None:
        """Set where the next forward writes: `positions` `[n, q]`, attention over `width`."""
        self._place.positions = positions
        self._place.rows = torch.arange(positions.shape[0], device=positions.device)[:, None]
        self._place.width = width

    @torch.inference_mode()
    def wipe(self, row: int) -> None:
        """Leave nothing of a row."""
        for layer in self.rows:
            layer.wipe(row)

    def swap(self, a: int, b: int, length: int | None) -> None:
        """Exchange two rows, of which the longer has `length` tokens; `None`: all there is."""
        for layer in self.rows:
            layer.swap(a, b, length)


def whole_capacity(config: Any, n_rows: int) -> int | None:
    """The longest text of a model, in whole blocks, if keys and values for that are little.

    Args:
        config: Of a transformers model.
        n_rows: How many requests may be held at once.
    """
    longest = getattr(config.get_text_config(), "max_position_embeddings", None)
    if longest is None:
        return None
    n_bytes = n_rows * longest * bytes_per_token(config, torch.float32)
    return blocks(longest) if n_bytes <= WHOLE else None


def bytes_per_token(config: Any, dtype: torch.dtype) -> int:
    """What the keys and values of one token take.

    Args:
        config: Of a transformers model.
        dtype: Of the keys and values.

    Examples:
        >>> from transformers import Qwen3Config
        >>> shape = {"num_hidden_layers": 64, "num_key_value_heads": 8, "head_dim": 128}
        >>> bytes_per_token(Qwen3Config(**shape), torch.bfloat16)  # as Qwen3-32B
        262144
    """
    config = config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(2 * config.num_hidden_layers * heads * head_dim * dtype.itemsize)


def _grown(old: torch.Tensor, width: int, longest: int | None) -> torch.Tensor:
    n_rows, heads, capacity, head_dim = old.shape
    ahead = capacity + capacity // 2
    if longest is not None:
        ahead = min(ahead, blocks(longest))
    new = old.new_zeros(n_rows, heads, max(width, ahead) + BLOCK, head_dim)
    new[:, :, :capacity] = old
    return _sized(new)


def _sized(storage: torch.Tensor) -> torch.Tensor:
    """Told to the compiler as storage that grows, and that has other rows in another run."""
    return varies(varies(storage, 2), 0) if len(storage) > 1 else varies(storage, 2)
