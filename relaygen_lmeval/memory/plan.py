"""How many requests fit at once: pure arithmetic over sizes in bytes and lengths in tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from relaygen_lmeval.errors import ConfigError

GB = 1e9


@dataclass(frozen=True, slots=True)
class ModelSize:
    """What one model takes.

    Attributes:
        role: `large` or `small`.
        device: Where it lies.
        weights: Bytes, already taken.
        kv_per_token: Bytes of the keys and values of one token in one row.
    """

    role: str
    device: str
    weights: int
    kv_per_token: int


def longest_batch(sizes: Sequence[ModelSize], n_tokens: int, free: Mapping[str, int]) -> int:
    """Rows of `n_tokens` tokens for whose keys and values every device has room.

    Args:
        sizes: Of the models whose keys and values are held.
        n_tokens: Prompt and generation of the longest request.
        free: Bytes of each device that nothing takes yet.

    Examples:
        >>> large = ModelSize("large", "cuda:0", 64_000_000_000, 262_144)
        >>> longest_batch([large], 32_768, {"cuda:0": 70_000_000_000})
        8
    """
    a_row = {
        device: n_tokens * sum(s.kv_per_token for s in sizes if s.device == device)
        for device in {size.device for size in sizes}
    }
    return min((free[device] // n for device, n in a_row.items() if n), default=1 << 30)


def describe(sizes: Sequence[ModelSize], n_tokens: int, free: Mapping[str, int]) -> str:
    """The plan in one line, sizes in GB."""
    models = "; ".join(
        f"{s.role} on {s.device}: weights {s.weights / GB:.3g} GB, "
        f"{s.kv_per_token / 1e3:.3g} kB a token, {n_tokens * s.kv_per_token / GB:.3g} GB a row"
        for s in sizes
    )
    left = ", ".join(f"{n / GB:.3g} GB on {device}" for device, n in sorted(free.items()))
    return f"{models}; free: {left}"


def check_fits(
    sizes: Sequence[ModelSize], n_rows: int, n_tokens: int, free: Mapping[str, int]
) -> None:
    """Refuse a batch whose keys and values do not fit, should every row get as long as it may.

    Raises:
        ConfigError: With the sizes, and the batch that fits.
    """
    fits = longest_batch(sizes, n_tokens, free)
    if n_rows <= fits:
        return
    todo = f"--batch_size {fits}" if fits else "a smaller max_gen_toks or max_length"
    raise ConfigError(
        f"{n_rows} requests of up to {n_tokens:,} tokens at once do not fit ("
        f"{describe(sizes, n_tokens, free)}): take {todo}, or give the models two devices"
    )
