"""Many rows of different lengths in one forward."""

from __future__ import annotations

import inspect
import logging
from typing import Any, NamedTuple

import torch

from relaygen_lmeval.engines.local import forward
from relaygen_lmeval.engines.local.cache import BLOCK, RowCache, blocks, whole_capacity
from relaygen_lmeval.engines.local.compiled import Program, compiled, varies
from relaygen_lmeval.engines.local.forward import Feed, Track

log = logging.getLogger(__name__)

SHORT = 2 * BLOCK  # tokens of a catch-up worth a compiled program


class Programs(NamedTuple):
    """Compiled short reads: one token a row; the last logits; the logits of every token."""

    step: Program
    last: Program
    every: Program


class Block(NamedTuple):
    """Ids `[n, q]`, and where each row begins."""

    ids: list[list[int]]
    starts: list[int]


class RaggedForward:
    """Rows of different lengths in one forward.

    Args:
        model: A causal transformers model with full attention.
        cache_argument: What its forward calls the cache.
        n_layers: Layers that hold keys and values.
        n_rows: How many requests may be held at once.
        compile_steps: Whether short reads are compiled.
        verifies: Whether the logits of several tokens of a row are going to be asked for.
    """

    crops = True

    def __init__(
        self,
        model: Any,
        cache_argument: str,
        n_layers: int,
        n_rows: int,
        *,
        compile_steps: bool = False,
        verifies: bool = False,
    ) -> None:
        self._model = model
        self._device = model.device
        longest = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self._cache = RowCache(n_layers, n_rows, whole_capacity(model.config, n_rows), longest)
        self._argument = cache_argument
        self._keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._float_mask = model.config._attn_implementation == "eager"
        self._slots: list[Track | None] = [None] * n_rows
        self._columns = torch.arange(0)
        self._short: Programs | None = None
        if compile_steps:
            self._short = Programs(*map(compiled, (self._step, self._last, self._every)))
            self._warm_up(min(2, n_rows), verifies)

    def feed(self, feeds: list[Feed], n_last: int = 1) -> torch.Tensor:
        """Read at least one token a row; logits `[len(feeds), n_last, V]`."""
        feeds = [self._feed_head(feed, forward.MAX_FEED, n_last) for feed in feeds]
        order = self._arrange([feed.track for feed in feeds])
        logits = self._forward([feeds[i] for i in order], n_last)
        if all(i == j for i, j in enumerate(order)):
            return logits
        return logits[sorted(range(len(order)), key=order.__getitem__)]

    @property
    def kv_bytes(self) -> int:
        """What keys and values take now."""
        return self._cache.n_bytes

    def crop(self, track: Track, length: int) -> None:
        """Forget what is cached beyond `length` tokens: it is masked, then overwritten."""
        del track.cached[length:]

    def release(self, track: Track) -> None:
        """Free the row."""
        if track.slot >= 0:
            if track.spoilt:
                self._cache.wipe(track.slot)
            self._slots[track.slot] = None
            track.slot = -1

    @torch.inference_mode()
    def _warm_up(self, n_rows: int, verifies: bool) -> None:
        """Have the compiler make its programs before anybody waits for a text."""
        log.info("compiling the steps of %s", type(self._model).__name__)
        tracks = [Track([]) for _ in range(n_rows)]
        for company in (tracks[:1], tracks):
            for length in (BLOCK - 9, 1, 7, 1, BLOCK, 1):  # reads and steps in one block and more
                self.feed([Feed(track, [0] * length) for track in company])
            for length in (3, 5) if verifies else ():
                self.feed([Feed(track, [0] * length) for track in company], length)
        for track in tracks:
            self.release(track)

    def _feed_head(self, feed: Feed, most: int, n_last: int) -> Feed:
        """Read all but about the last `most` tokens of a long text, so memory stays bounded."""
        ids = feed.ids
        while len(ids) >= most + n_last:
            self._arrange([feed.track])
            self._forward([Feed(feed.track, ids[:most])], 1)
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
        length: int | None = max(len(row.cached) if row else 0 for row in rows)
        if any(row and row.spoilt for row in rows):
            length = None  # padding is NaN, too
        if length != 0:
            self._exchange(a, b, length)
        self._slots[a], self._slots[b] = self._slots[b], self._slots[a]
        for slot in (a, b):
            if track := self._slots[slot]:
                track.slot = slot

    def _exchange(self, a: int, b: int, length: int | None) -> None:
        """Where memory ends between two layers, neither row is whole: both are read anew."""
        try:
            self._cache.swap(a, b, length)
        except BaseException:
            for slot in (a, b):
                if track := self._slots[slot]:
                    track.cached.clear()
            raise

    def _forward(self, feeds: list[Feed], n_last: int) -> torch.Tensor:
        aligned = _aligned(feeds)
        rows, begins = aligned or _padded(feeds)
        ids = torch.tensor(rows).to(self._device, non_blocking=True)
        starts = torch.tensor(begins).to(self._device, non_blocking=True)
        columns = self._reserve(blocks(max(begins) + ids.shape[1]))
        if aligned:
            logits = self._tail(ids, starts, columns, n_last)
        else:
            logits = self._read(ids, starts, columns, _wanted(feeds, n_last))
        for feed in feeds:
            feed.track.cached.extend(feed.ids)
        return logits

    def _reserve(self, width: int) -> torch.Tensor:
        """Make room for `width` tokens a row; returns their numbers, `[width]`."""
        self._cache.reserve(width)
        if len(self._columns) != width:
            self._columns = varies(torch.arange(width, device=self._device), 0)
        return self._columns

    def _tail(
        self, ids: torch.Tensor, starts: torch.Tensor, columns: torch.Tensor, n_last: int
    ) -> torch.Tensor:
        """Rows that all end at the last column: `[n, n_last, V]`."""
        q = ids.shape[1]
        if self._short is None or q > SHORT or not self._cache.holds_something:
            return self._logits(ids, starts, columns, n_last)
        if q == 1:
            return self._short.step(ids, starts, columns)
        if n_last == 1:
            return self._short.last(ids, starts, columns)
        return self._short.every(ids, starts, columns)[:, -n_last:]

    # Three functions, for the compiler keeps the programs of each apart and looks through fewer.
    def _step(self, ids: torch.Tensor, starts: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        return self._logits(ids, starts, columns, 1)

    def _last(self, ids: torch.Tensor, starts: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        return self._logits(ids, starts, columns, 1)

    def _every(
        self, ids: torch.Tensor, starts: torch.Tensor, columns: torch.Tensor
    ) -> torch.Tensor:
        return self._logits(ids, starts, columns, 0)

    def _read(
        self,
        ids: torch.Tensor,
        starts: torch.Tensor,
        columns: torch.Tensor,
        wanted: list[list[int]],
    ) -> torch.Tensor:
        """Right-padded rows; of row `i` the logits at its columns `wanted[i]`, `[n, n_last, V]`."""
        every = sorted({column for row in wanted for column in row})
        logits = self._logits(ids, starts, columns, torch.tensor(every, device=ids.device))
        at = torch.tensor([[every.index(column) for column in row] for row in wanted])
        return logits[torch.arange(len(at))[:, None], at]

    def _logits(
        self,
        ids: torch.Tensor,
        starts: torch.Tensor,
        columns: torch.Tensor,
        keep: int | torch.Tensor,
    ) -> torch.Tensor:
        """Forward `ids` `[n, q]` whose rows begin at `starts` `[n]`.

        Returns:
            Logits `[n, kept, V]`: of the last `keep` columns (0: of all), or of these columns.
        """
        positions = starts[:, None] + torch.arange(ids.shape[1], device=ids.device)
        self._cache.point(positions, columns.shape[0])
        options = {"logits_to_keep": keep} if self._keeps_logits else {}
        output = self._model(
            input_ids=ids,
            attention_mask=self._mask(positions, columns),
            position_ids=positions,
            use_cache=True,
            **{self._argument: self._cache},
            **options,
        )
        logits: torch.Tensor = output.logits
        if self._keeps_logits:
            return logits
        return logits[:, -keep:] if isinstance(keep, int) else logits[:, keep]

    def _mask(self, positions: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """`[n, 1, q, width]`: each token sees its own row up to itself."""
        sees = columns <= positions[:, None, :, None]
        if not self._float_mask:
            return sees
        lowest = torch.finfo(self._model.dtype).min
        zeros = torch.zeros(sees.shape, dtype=self._model.dtype, device=sees.device)
        return zeros.masked_fill(~sees, lowest)


def _aligned(feeds: list[Feed]) -> Block | None:
    """Rows of one length: a row with less to read reads its last cached tokens once more.

    They are written where they are, unchanged, so no row is padded and all end together.
    """
    q = max(len(feed.ids) for feed in feeds)
    totals = [len(feed.track.cached) + len(feed.ids) for feed in feeds]
    if min(totals) < q:
        return None
    ids = [
        feed.track.cached[total - q :] + feed.ids for feed, total in zip(feeds, totals, strict=True)
    ]
    return Block(ids, [total - q for total in totals])


def _padded(feeds: list[Feed]) -> Block:
    """Rows padded on the right: what lies beyond a row's end is masked until overwritten."""
    q = max(len(feed.ids) for feed in feeds)
    ids = [feed.ids + [0] * (q - len(feed.ids)) for feed in feeds]
    return Block(ids, [len(feed.track.cached) for feed in feeds])


def _wanted(feeds: list[Feed], n_last: int) -> list[list[int]]:
    """The last `n_last` columns of each row; a shorter row repeats its first."""
    lasts = [len(feed.ids) - 1 for feed in feeds]
    return [[max(0, last - back) for back in reversed(range(n_last))] for last in lasts]
