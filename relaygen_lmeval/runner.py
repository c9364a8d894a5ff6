"""Drives requests through their engines, many at once; knows neither torch nor the harness."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, TypeVar

from relaygen_lmeval.core.policy import Policy
from relaygen_lmeval.core.relay import advance, begin, next_turn, segments, text_of
from relaygen_lmeval.core.types import Phase, RelayRequest, RelayResult, RelayState
from relaygen_lmeval.engines.base import Engines
from relaygen_lmeval.errors import FailedRequests, RequestError, ServerError
from relaygen_lmeval.stopping import OnStop, stops_on_signals

log = logging.getLogger(__name__)

T = TypeVar("T")
OnResult = Callable[[RelayResult], None]


async def relay_one(request: RelayRequest, policy: Policy, engines: Engines) -> RelayResult:
    """Relay one request to its end.

    Raises:
        EngineError: If an engine failed; what was written so far is lost.
    """
    started_s = perf_counter()
    state = begin(request, policy)
    try:
        while turn := next_turn(state, policy):
            state = advance(state, await engines[turn.role].run(turn), policy)
    finally:
        for role in policy.roles:
            engines[role].release(request.seq_id)
    return _result(state, started_s, perf_counter())


async def relay_all(
    requests: Iterable[RelayRequest],
    policy: Policy,
    engines: Engines,
    *,
    n_at_once: int,
    on_result: OnResult,
) -> None:
    """Relay many requests, `n_at_once` of them under way at any time.

    Results are handed on and not kept: a run of days would fill the memory with them.

    Args:
        requests: In any order.
        policy: Who writes what.
        engines: One for each role of the policy.
        n_at_once: Rows that the engines hold at once.
        on_result: Called with each result as it is finished.

    Raises:
        EngineError: The first failure of a model in this process, where all would fail alike.
        FailedRequests: Names those that failed for good, after all others are finished.
    """
    places = asyncio.Semaphore(n_at_once)
    failed: dict[int, str] = {}

    async def one(request: RelayRequest) -> None:
        async with places:
            try:
                on_result(await relay_one(request, policy, engines))
            except (RequestError, ServerError) as error:
                failed[request.seq_id] = str(error)
                log.error("%s; the others go on", error)

    tasks = [asyncio.create_task(one(request)) for request in requests]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if failed:
        raise FailedRequests(_all_failed(failed, len(tasks)), failed)


def run_here(work: Coroutine[Any, Any, T], on_stop: OnStop | None = None) -> T:
    """Run a coroutine to its end, from inside a running event loop (a notebook) too.

    Args:
        work: The coroutine.
        on_stop: Hears of SIGINT and SIGTERM, which then cancel the work; `None`: they do what
            they do anywhere.

    Raises:
        Stopped: A signal came.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work) if on_stop is None else _run_stoppable(work, on_stop)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def _run_stoppable(work: Coroutine[Any, Any, T], on_stop: OnStop) -> T:
    cancels: list[Callable[[], object]] = []

    async def main() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        cancels.append(lambda: loop.call_soon_threadsafe(task.cancel))
        return await work

    with stops_on_signals(lambda: [cancel() for cancel in cancels], on_stop):
        return asyncio.run(main())
    raise AssertionError("the signal is an exception")


def _all_failed(failed: dict[int, str], n: int) -> str:
    """Every failed request by its number, and what was the matter, once where it is the same."""
    numbers: dict[str, list[str]] = {}
    for seq_id in sorted(failed):
        reason = failed[seq_id].removeprefix(f"request {seq_id}, ")
        numbers.setdefault(reason, []).append(str(seq_id))
    named = "; ".join(f"{', '.join(who)}: {reason}" for reason, who in numbers.items())
    return f"{len(failed)} of {n} requests failed: {named}"


def _result(state: RelayState, started_s: float, ended_s: float) -> RelayResult:
    assert state.finish is not None
    answers = tuple(c for c in state.chunks if c.phase is Phase.ANSWER)
    return RelayResult(
        request=state.request,
        text=text_of(state.chunks),
        answer=text_of(answers if state.thinks else state.chunks),
        segments=segments(state.chunks),
        finish=state.finish,
        flags=state.flags,
        started_s=started_s,
        ended_s=ended_s,
    )
