"""Keeps `--use_cache` from giving one run the texts of another.

The harness hashes what is asked and not who is asked: two pairs, policies or cue files that share a
cache file would read each other's texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relaygen_lmeval.errors import ConfigError


def separate(cache_hook: Any, name: str) -> None:
    """Have a cache keep its entries under a name, whatever else lies in the same file.

    Args:
        cache_hook: The harness's; its dictionary is the one that the caching model reads.
        name: Of this run; see `journal.identity`.

    Raises:
        ConfigError: A cache of a kind that cannot be kept apart.
    """
    entries = getattr(cache_hook, "dbdict", None)
    if entries is None:
        return
    if not hasattr(entries, "encode_key"):
        raise ConfigError(
            f"--use_cache: this lm_eval keeps texts in {type(entries).__name__}, where those of "
            "another pair, policy or cue file cannot be told from ours; run without --use_cache"
        )
    prefix = f"relaygen-{name}-"
    entries.encode_key = lambda key: f"{prefix}{key}"
    entries.decode_key = lambda key: key.removeprefix(prefix)


def check_sampling(
    cache_hook: Any, gen_kwargs: Mapping[str, Any], resolved: Mapping[str, Any]
) -> None:
    """Refuse sampling that the harness's cache takes for greedy, as it looks at `do_sample` alone.

    Args:
        cache_hook: The harness's.
        gen_kwargs: As the task and `--gen_kwargs` give them.
        resolved: The same with the harness's defaults.

    Raises:
        ConfigError: Every repeat and every later run would get one and the same text.
    """
    sampled = bool(resolved.get("do_sample")) and float(resolved.get("temperature") or 0) > 0
    cached = getattr(cache_hook, "dbdict", None) is not None  # an empty one is false
    if cached and sampled and not gen_kwargs.get("do_sample"):
        raise ConfigError(
            f"temperature={resolved['temperature']} without do_sample=True: --use_cache would give "
            "every repeat the same text; add do_sample=True to --gen_kwargs"
        )
