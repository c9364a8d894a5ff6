"""One device, one thread: decides which of its lanes steps next.

Lanes on one device share it, so a lane's step is worth the rows it serves per second; the
lane that serves most goes first. Lanes on two devices have a pacer each and step at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread

import torch

from relaygen_lmeval.core.types import Chunk, Turn
from relaygen_lmeval.engines.local.lane import Lane, Row
from relaygen_lmeval.errors import EngineError, RelayGenError

Job = Callable[[], None]

# A lane keeps the device until another would serve so many times more rows a second: meanwhile
# the other's rows gather, catch up in one forward and step together.
STAY = 5.0


class Pacer:
    """Runs the lanes of one device in a thread of its own, while the event loop stays free."""

    def __init__(self) -> None:
        self._lanes: list[Lane] = []
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._waiting: dict[Row, asyncio.Future[Chunk]] = {}
        self._thread: Thread | None = None
        self._lane: Lane | None = None  # the one that stepped last

    def add(self, lane: Lane) -> None:
        """Give a lane to this device."""
        self._lanes.append(lane)

    def submit(self, lane: Lane, turn: Turn) -> asyncio.Future[Chunk]:
        """Ask a lane for a turn; the future belongs to the running event loop."""
        future = asyncio.get_running_loop().create_future()
        self._start()
        self._jobs.put(lambda: self._take(lane, turn, future))
        return future

    def release(self, lane: Lane, seq_id: int) -> None:
        """Forget a request, in the thread that knows it."""
        self._jobs.put(lambda: self._release(lane, seq_id))

    def close(self) -> None:
        """End the thread after the step it is in."""
        if self._thread:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _start(self) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._work, name="relaygen-pacer", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        with torch.inference_mode():
            while self._do_jobs():
                lane = self._next_lane()
                if lane is not None:
                    self._step(lane)

    def _do_jobs(self) -> bool:
        """Do what was asked, waiting for it when there is nothing to step; False: the end."""
        block = self._next_lane() is None
        while True:
            try:
                job = self._jobs.get(block=block)
            except Empty:
                return True
            if job is None:
                return False
            job()
            block = False

    def _next_lane(self) -> Lane | None:
        ready = [lane for lane in self._lanes if lane.n_ready]
        best = max(ready, key=_rows_per_s, default=None)
        if best and self._lane in ready and _rows_per_s(best) < STAY * _rows_per_s(self._lane):
            return self._lane
        return best

    def _take(self, lane: Lane, turn: Turn, future: asyncio.Future[Chunk]) -> None:
        try:
            self._waiting[lane.take(turn)] = future
        except Exception as error:  # noqa: BLE001  it belongs to whoever awaits the turn
            _settle(future, error)

    def _release(self, lane: Lane, seq_id: int) -> None:
        for row in lane.release(seq_id):  # its request was given up: nobody waits any more
            self._waiting.pop(row, None)

    def _step(self, lane: Lane) -> None:
        self._lane = lane
        try:
            done = lane.step()
        except Exception as error:  # noqa: BLE001  it belongs to whoever awaits the rows
            self._fail(lane, error)
            return
        for row in done:
            assert row.chunk is not None
            _settle(self._waiting.pop(row), row.chunk)

    def _fail(self, lane: Lane, error: Exception) -> None:
        for row in lane.clear():
            if future := self._waiting.pop(row, None):
                _settle(future, _named(lane, row, error))


def _rows_per_s(lane: Lane) -> float:
    return lane.n_ready / (lane.step_s or 1e-9)


def _named(lane: Lane, row: Row, error: Exception) -> RelayGenError:
    """The failure of a step, as one request sees it."""
    if isinstance(error, RelayGenError):
        return error
    request = row.turn.request
    n_tokens = len(row.track.ids) + len(row.ids)
    hint = ""
    if isinstance(error, torch.OutOfMemoryError) or "memory" in str(error).lower():
        hint = "; lower --batch_size, max_gen_toks or max_length, or give the models two devices"
    failed = EngineError(
        f"request {request.seq_id}: the {lane.role.value} model failed at {n_tokens} tokens "
        f"({type(error).__name__}: {error}){hint}"
    )
    failed.__cause__ = error
    return failed


def _settle(future: asyncio.Future[Chunk], outcome: Chunk | Exception) -> None:
    """Hand an outcome to the event loop that waits for it, if it still does."""
    loop = future.get_loop()
    if not loop.is_closed():
        loop.call_soon_threadsafe(_set, future, outcome)


def _set(future: asyncio.Future[Chunk], outcome: Chunk | Exception) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
