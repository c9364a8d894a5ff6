"""One device: decides which of its lanes steps next.

Lanes on one device share it, so a lane's step is worth the rows it serves per second; the
lane that serves most goes first. A single device steps in the event loop itself, where nothing
is handed from thread to thread; with more of them each steps in a thread of its own, at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import torch

from relaygen_lmeval.core.types import Chunk, Turn
from relaygen_lmeval.engines.local.lane import Lane
from relaygen_lmeval.engines.local.memory import is_out_of_memory
from relaygen_lmeval.engines.local.row import Row
from relaygen_lmeval.errors import EngineError, RelayGenError

# A lane keeps the device until another would serve so many times more rows a second: meanwhile
# the other's rows gather, catch up in one forward and step together.
STAY = 5.0


class Pacer:
    """Runs the lanes of one device.

    Args:
        apart: Whether it steps in a thread of its own, beside other devices.
        n_threads: CPU threads of that thread's forwards; default: torch's own number.
    """

    def __init__(self, *, apart: bool = False, n_threads: int | None = None) -> None:
        self._lanes: list[Lane] = []
        self._waiting: dict[Row, asyncio.Future[Chunk]] = {}
        self._lane: Lane | None = None  # the one that stepped last
        self._pool = _thread(n_threads) if apart else None
        self._task: asyncio.Task[None] | None = None
        self._stepping = False  # in the thread: the lanes are not to be touched
        self._jobs: deque[Callable[[], None]] = deque()  # what waits for the step's end

    def add(self, lane: Lane) -> None:
        """Give a lane to this device."""
        self._lanes.append(lane)

    def submit(self, lane: Lane, turn: Turn) -> asyncio.Future[Chunk]:
        """Ask a lane for a turn; the future belongs to the running event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Chunk] = loop.create_future()
        self._do(lambda: self._take(lane, turn, future))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._work())
        return future

    def release(self, lane: Lane, seq_id: int) -> None:
        """Forget a request."""
        self._do(lambda: self._release(lane, seq_id))

    def close(self) -> None:
        """End the thread, if there is one, after the step it is in."""
        if self._pool:
            self._pool.shutdown()

    async def _work(self) -> None:
        while lane := self._next_lane():
            self._lane = lane
            try:
                done = await self._step(lane)
            except Exception as error:  # noqa: BLE001  it belongs to whoever awaits the rows
                self._fail(lane, error)
            else:
                for row in done:
                    outcome = row.failure or row.chunk
                    assert outcome is not None
                    _settle(self._waiting.pop(row), outcome)
            await asyncio.sleep(0)  # whoever waited goes on, and asks for the next turn

    async def _step(self, lane: Lane) -> list[Row]:
        if self._pool is None:
            return _step(lane)
        self._stepping = True
        step = self._pool.submit(_step, lane)
        try:
            return await asyncio.wrap_future(step)
        finally:
            wait([step])  # a run that was cancelled leaves no step behind
            self._stepping = False
            while self._jobs:
                self._jobs.popleft()()

    def _do(self, job: Callable[[], None]) -> None:
        if self._stepping:
            self._jobs.append(job)
        else:
            job()

    def _next_lane(self) -> Lane | None:
        ready = [lane for lane in self._lanes if lane.n_ready]
        if len(ready) < 2:
            return ready[0] if ready else None
        best = max(ready, key=_rows_per_s)
        if self._lane in ready and _rows_per_s(best) < STAY * _rows_per_s(self._lane):
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

    def _fail(self, lane: Lane, error: Exception) -> None:
        for row in lane.clear():
            if future := self._waiting.pop(row, None):
                _settle(future, _named(lane, row, error))


def _thread(n_threads: int | None) -> ThreadPoolExecutor:
    """One thread; how many CPU threads its forwards use is the thread's own setting."""
    if n_threads is None:
        return ThreadPoolExecutor(1, "relaygen-pacer")
    return ThreadPoolExecutor(1, "relaygen-pacer", torch.set_num_threads, (n_threads,))


@torch.inference_mode()
def _step(lane: Lane) -> list[Row]:
    return lane.step()


def _rows_per_s(lane: Lane) -> float:
    return lane.n_ready / (lane.step_s or 1e-9)


def _named(lane: Lane, row: Row, error: Exception) -> RelayGenError:
    """The failure of a step, as one request sees it."""
    if isinstance(error, RelayGenError):
        return error
    request = row.turn.request
    n_tokens = len(row.track.ids) + len(row.ids)
    hint = ""
    if is_out_of_memory(error):
        hint = "; lower --batch_size, max_gen_toks or max_length, or give the models two devices"
    failed = EngineError(
        f"request {request.seq_id}: the {lane.role.value} model failed at {n_tokens} tokens "
        f"({type(error).__name__}: {error}){hint}"
    )
    failed.__cause__ = error
    return failed


def _settle(future: asyncio.Future[Chunk], outcome: Chunk | Exception) -> None:
    """Hand an outcome to whoever waits for it, if anybody still does."""
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
