"""Ends a run in good order when it is told to stop: by Ctrl-C, or by whoever schedules jobs."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

OnStop = Callable[[str], None]

_GRACE_S = 1.5  # for the step that is under way; a long read on a CPU takes more
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_leave_by: list[int] = []  # the signal that has stopped this process


class Stopped(SystemExit):
    """The run was told to stop; its exit code is 128 and the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        _leave_by.append(number)


@contextmanager
def stops_on_signals(cancel: Callable[[], object], on_stop: OnStop) -> Iterator[None]:
    """Within, SIGINT and SIGTERM cancel the work; a second one ends the process at once.

    Args:
        cancel: Asks the work to end; called in the main thread, between two of its steps.
        on_stop: Hears the name of the signal when the work has ended, or is given up.

    Raises:
        Stopped: At the end, if one came, and in the place of whatever came of it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def give_up() -> None:
        on_stop(signal.Signals(came[0]).name)
        _exit(came[0])

    at_last = threading.Timer(_GRACE_S, give_up)
    at_last.daemon = True

    def stop(number: int, frame: FrameType | None) -> None:
        if came:
            _exit(number)
        came.append(number)
        at_last.start()
        cancel()

    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    except BaseException:
        if not came:
            raise
    finally:
        at_last.cancel()
        for number, handler in before.items():
            signal.signal(number, _or_default(handler))
    if came:
        on_stop(signal.Signals(came[0]).name)
        raise Stopped(came[0])


def _exit(number: int) -> None:
    """Without a word to anybody: every line of the journal is written already.

    Native threads may abort an interpreter that takes itself down right after a step, and with it
    the exit code.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(128 + number)


@atexit.register  # at import, so that what is registered later, as servers to stop, goes first
def _leave() -> None:
    if _leave_by:
        _exit(_leave_by[0])


def _or_default(handler: Any) -> Any:
    """`None` is a handler that was not set from Python."""
    return signal.SIG_DFL if handler is None else handler
