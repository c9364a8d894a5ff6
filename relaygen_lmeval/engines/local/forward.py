"""Feeding token ids to a transformers model and reading the next-token logits.

Two ways with one face: many ragged rows in one forward, or, for a model whose cache cannot be
cut and shared, one row at a time on the cache it brings.
"""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

from relaygen_lmeval.engines.local.cache import BLOCK, RowCache, blocks
from relaygen_lmeval.engines.local.compiled import Step, compiled_read, compiled_step, varies
from relaygen_lmeval.errors import EngineError

log = logging.getLogger(__name__)

SHORT = 2 * BLOCK  # tokens of a catch-up worth a compiled program
MAX_FEED = 4096  # tokens, padding included, of one prefill forward: bounds its memory


@dataclass(eq=False)
class Track:
    """One request as a model knows it.

    Attributes:
        ids: All token ids so far, in this model's tokenizer.
        cached: The ids whose keys and values are held.
        n_chunks: How many chunks of the relay `ids` holds.
        slot: Its row in the storage.
    """

    ids: list[int]
    cached: list[int] = field(default_factory=list)
    n_chunks: int = 0
    slot: int = -1


class Feed(NamedTuple):
    """Ids that a model reads next for one request; they follow what is cached."""

    track: Track
    ids: list[int]


class Forward(Protocol):
    """A model with the cached rows of its requests."""

    def feed(self, feeds: list[Feed]) -> torch.Tensor:
        """Read at least one token a row; returns logits of the next, `[len(feeds), V]`."""

    def crop(self, track: Track, length: int) -> None:
        """Forget what is cached beyond `length` tokens."""

    def release(self, track: Track) -> None:
        """Free the row."""


def make_forward(model: Any, n_rows: int, *, compiled: bool = False) -> Forward:
    """Choose by the kind of cache the model asks for."""
    argument = cache_argument(model)
    if argument is None:
        raise EngineError(
            f"{type(model).__name__} takes no cache in its forward, so it cannot take over a "
            "text without reading all of it for every token; use a model with a cache"
        )
    layers = list(DynamicCache(config=model.config).layers)
    if layers and all(type(layer) is DynamicLayer for layer in layers):
        if model.config._attn_implementation not in ("sdpa", "eager"):
            model.set_attn_implementation("sdpa")  # ragged rows bring a mask of their own
        return RaggedForward(model, argument, len(layers), n_rows, compiled=compiled)
    log.warning(
        "%s keeps a cache that cannot be shared between ragged rows (%s): one row a forward",
        type(model).__name__,
        ", ".join(sorted({type(layer).__name__ for layer in layers})) or "its own",
    )
    return RowwiseForward(model, argument)


def cache_argument(model: Any) -> str | None:
    """The name of the forward's cache: transformers 5 renames `past_key_values`."""
    names = inspect.signature(model.forward).parameters
    return next((name for name in ("cache", "past_key_values") if name in names), None)


class RaggedForward:
    """Rows of different lengths in one forward.

    Args:
        model: A causal transformers model with full attention.
        cache_argument: What its forward calls the cache.
        n_layers: Layers that hold keys and values.
        n_rows: How many requests may be held at once.
        compiled: Whether the steps of one token a row are compiled.
    """

    def __init__(
        self, model: Any, cache_argument: str, n_layers: int, n_rows: int, *, compiled: bool
    ) -> None:
        self._model = model
        self._cache = RowCache(n_layers, n_rows)
        self._argument = cache_argument
        self._keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._float_mask = model.config._attn_implementation == "eager"
        self._slots: list[Track | None] = [None] * n_rows
        self._columns = torch.arange(0)
        self._decode: Step = self._step
        self._read_one: Step = self._last
        if compiled:
            self._decode = compiled_step(self._step)
            self._read_one = compiled_read(self._last)
            self._warm_up(min(2, n_rows))

    def feed(self, feeds: list[Feed]) -> torch.Tensor:
        """Read at least one token a row; returns logits of the next, `[len(feeds), V]`."""
        feeds = [self._feed_head(feed, MAX_FEED) for feed in feeds]
        order = self._arrange([feed.track for feed in feeds])
        logits = self._forward([feeds[i] for i in order])
        back = torch.empty(len(order), dtype=torch.long)
        back[order] = torch.arange(len(order))
        return logits[back.to(logits.device)] if order != sorted(order) else logits

    def crop(self, track: Track, length: int) -> None:
        """Forget what is cached beyond `length` tokens: it is masked, then overwritten."""
        del track.cached[length:]

    def release(self, track: Track) -> None:
        """Free the row."""
        if track.slot >= 0:
            self._slots[track.slot] = None
            track.slot = -1

    @torch.inference_mode()
    def _warm_up(self, n_rows: int) -> None:
        """Have the compiler make its programs before anybody waits for a text."""
        log.info("compiling the decode step of %s", type(self._model).__name__)
        tracks = [Track([]) for _ in range(n_rows)]
        for company in (tracks[:1], tracks):
            for length in (BLOCK - 9, 1, 7, 1, BLOCK, 1):  # reads and steps in one block and more
                self.feed([Feed(track, [0] * length) for track in company])
        for track in tracks:
            self.release(track)

    def _feed_head(self, feed: Feed, most: int) -> Feed:
        """Read all but the last `most` tokens of a long text, so memory stays bounded."""
        ids = feed.ids
        while len(ids) > most:
            self._arrange([feed.track])
            self._forward([Feed(feed.track, ids[:most])])
            ids = ids[most:]
        return Feed(feed.track, ids)

    def _arrange(self, tracks: list[Track]) -> list[int]:
        """Bring the rows of `tracks` to the front; returns their order there, as indices."""
        for track in tracks:
            if track.slot < 0:
                track.slot = self._slots.index(None)
                self._slots[track.slot] = track
        n = len(tracks)
        ahead = {track.slot for track in tracks}
        free = [slot for slot in range(n) if slot not in ahead]
        for track in tracks:
            if track.slot >= n:
                self._swap(track.slot, free.pop())
        return sorted(range(n), key=lambda i: tracks[i].slot)

    def _swap(self, a: int, b: int) -> None:
        rows = (self._slots[a], self._slots[b])
        length = max(len(row.cached) if row else 0 for row in rows)
        if length:
            self._cache.swap(a, b, length)
        self._slots[a], self._slots[b] = self._slots[b], self._slots[a]
        for slot in (a, b):
            if track := self._slots[slot]:
                track.slot = slot

    def _forward(self, feeds: list[Feed]) -> torch.Tensor:
        longest = max(len(feed.ids) for feed in feeds)
        ids = [feed.ids + [0] * (longest - len(feed.ids)) for feed in feeds]
        starts = [len(feed.track.cached) for feed in feeds]
        width = blocks(max(starts) + longest)
        lasts = [len(feed.ids) - 1 for feed in feeds]
        logits = self._call(torch.tensor(ids), torch.tensor(starts), width, lasts)
        for feed in feeds:
            feed.track.cached.extend(feed.ids)
        return logits

    def _call(
        self, ids: torch.Tensor, starts: torch.Tensor, width: int, lasts: list[int]
    ) -> torch.Tensor:
        """Forward `ids` `[n, q]` whose rows begin at `starts` `[n]`; logits `[n, V]`."""
        device = self._model.device
        ids, starts = ids.to(device, non_blocking=True), starts.to(device, non_blocking=True)
        if len(self._columns) != width or self._columns.device != device:
            self._columns = varies(torch.arange(width, device=device), 0)
        self._cache.reserve(width)
        columns = self._columns
        if ids.shape[1] == 1 and self._cache.holds_something:
            return self._decode(ids, starts, columns)
        if len(ids) == 1 and ids.shape[1] <= SHORT and self._cache.holds_something:
            return self._read_one(ids, starts, columns)
        return self._read(ids, starts, columns, lasts)

    def _step(self, ids: torch.Tensor, starts: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """One token a row, `ids` `[n, 1]`; all of it can be compiled."""
        positions = starts[:, None]
        logits: torch.Tensor = self._logits(ids, positions, columns)
        return logits[:, -1]

    def _last(self, ids: torch.Tensor, starts: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """Several tokens of one row, `ids` `[1, q]`; all of it can be compiled."""
        positions = starts[:, None] + torch.arange(ids.shape[1], device=ids.device)
        options = {"logits_to_keep": 1} if self._keeps_logits else {}
        return self._logits(ids, positions, columns, **options)[:, -1]

    def _read(
        self, ids: torch.Tensor, starts: torch.Tensor, columns: torch.Tensor, lasts: list[int]
    ) -> torch.Tensor:
        """Several tokens a row, right-padded; row `i` ends at its token `lasts[i]`."""
        positions = starts[:, None] + torch.arange(ids.shape[1], device=ids.device)
        wanted = sorted(set(lasts))
        if not self._keeps_logits:
            logits = self._logits(ids, positions, columns)
            return logits[torch.arange(len(lasts)), torch.tensor(lasts)]
        keep = torch.tensor(wanted, device=ids.device)
        logits = self._logits(ids, positions, columns, logits_to_keep=keep)
        return logits[torch.arange(len(lasts)), torch.tensor([wanted.index(n) for n in lasts])]

    def _logits(
        self, ids: torch.Tensor, positions: torch.Tensor, columns: torch.Tensor, **options: Any
    ) -> torch.Tensor:
        self._cache.point(positions, columns.shape[0])
        output = self._model(
            input_ids=ids,
            attention_mask=self._mask(positions, columns),
            position_ids=positions,
            use_cache=True,
            **{self._argument: self._cache},
            **options,
        )
        logits: torch.Tensor = output.logits
        return logits

    def _mask(self, positions: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """`[n, 1, q, width]`: each token sees its own row up to itself."""
        sees = columns <= positions[:, None, :, None]
        if not self._float_mask:
            return sees
        lowest = torch.finfo(self._model.dtype).min
        zeros = torch.zeros(sees.shape, dtype=self._model.dtype, device=sees.device)
        return zeros.masked_fill(~sees, lowest)


class RowwiseForward:
    """One row at a time on the cache the model brings; a cut means reading anew."""

    def __init__(self, model: Any, cache_argument: str) -> None:
        self._model = model
        self._argument = cache_argument
        self._caches: dict[Track, DynamicCache] = {}

    def feed(self, feeds: list[Feed]) -> torch.Tensor:
        """Read at least one token a row; returns logits of the next, `[len(feeds), V]`."""
        return torch.cat([self._feed_one(feed) for feed in feeds])

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
        logits: torch.Tensor = output.logits[:, -1]
        return logits
