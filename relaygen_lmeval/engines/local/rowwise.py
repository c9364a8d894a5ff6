"""One row at a time, on the cache that the model brings."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import DynamicCache

from relaygen_lmeval.engines.local.forward import Feed, Track


class RowwiseForward:
    """One row at a time on the cache the model brings; a cut means reading anew.

    Args:
        model: A causal transformers model with any cache.
        cache_argument: What its forward calls the cache.
    """

    crops = False
    kv_bytes = 0  # such caches are small, and end with their request

    def __init__(self, model: Any, cache_argument: str) -> None:
        self._model = model
        self._argument = cache_argument
        self._caches: dict[Track, DynamicCache] = {}

    def feed(self, feeds: list[Feed], n_last: int = 1) -> torch.Tensor:
        """Read at least one token a row; logits `[len(feeds), n_last, V]`."""
        return torch.cat([self._feed_one(feed)[:, -n_last:] for feed in feeds])

    def crop(self, track: Track, length: int) -> None:
        """Forget everything: such a cache has lost what a shorter one would hold."""
        self.release(track)

    def release(self, track: Track) -> None:
        """Free the row."""
        self._caches.pop(track, None)
        track.cached.clear()

    def _feed_one(self, feed: Feed) -> torch.Tensor:
        cache = self._caches.get(feed.track)
        if cache is None:
            cache = self._caches[feed.track] = DynamicCache(config=self._model.config)
        ids = torch.tensor([feed.ids], device=self._model.device)
        output = self._model(input_ids=ids, use_cache=True, **{self._argument: cache})
        feed.track.cached.extend(feed.ids)
        logits: torch.Tensor = output.logits
        return logits
