"""What to do when a device has no memory left: fewer rows at once, down to one alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import torch
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size

from relaygen_lmeval.engines.local.forward import Forward
from relaygen_lmeval.engines.local.row import Row
from relaygen_lmeval.errors import RequestError

log = logging.getLogger(__name__)

Write = Callable[[list[Row]], object]

_TODO = (
    "lower max_gen_toks or max_length, or --batch_size, which frees room for keys and values; or "
    "give the models two devices"
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch means that there was no memory left, on any device."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, Exception) and should_reduce_batch_size(error)


class Spare:
    """Writes in as many rows at once as memory allows.

    Attributes:
        n_most: Rows of one forward, after all that was learned; `None`: no bound was met.
    """

    def __init__(self, forward: Forward) -> None:
        self._forward = forward
        self.n_most: int | None = None

    def write(self, rows: Sequence[Row], write: Write) -> None:
        """Call `write` for all rows; those that memory does not suffice for alone fail by name.

        Args:
            rows: Each is written in exactly once.
            write: Writes in some of them; what it leaves undone at an error is done again.
        """
        n = self.n_most or len(rows)
        for begin in range(0, len(rows), n):
            self._write(list(rows[begin : begin + n]), write)

    def _write(self, rows: list[Row], write: Write) -> None:
        cached = [len(row.track.cached) for row in rows]
        said = _said(rows, write)
        if said is None:
            return
        clear_device_cache(garbage_collection=True)
        for row, length in zip(rows, cached, strict=True):
            self._forward.crop(row.track, length)
        if len(rows) == 1:
            rows[0].failure = _alone(rows[0], said)
            return
        half = -(-len(rows) // 2)
        self._write(rows[:half], write)
        self._write(rows[half:], write)
        if not any(row.failure for row in rows):  # else it was one of them, and not their number
            self._learn(rows, half)

    def _learn(self, rows: list[Row], n: int) -> None:
        if self.n_most is None or n < self.n_most:
            self.n_most = n
            log.warning(
                "no memory for %d rows of the %s model at once: it takes %d from now on",
                len(rows),
                rows[0].turn.role.value,
                n,
            )


def _said(rows: list[Row], write: Write) -> str | None:
    """What the device said where memory ran out. Its error is gone: it holds what fills it."""
    try:
        write(rows)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return str(error).strip().split("\n")[0]
    return None


def _alone(row: Row, said: str) -> RequestError:
    n_tokens = len(row.track.ids) + len(row.ids)
    return RequestError(
        f"request {row.turn.request.seq_id}, {row.turn.role.value} model: out of memory at "
        f"{n_tokens} tokens, alone in the batch ({said}); {_TODO}"
    )
