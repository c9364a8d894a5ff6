"""Asks whether two answers are equal, in another process and within a limit of time.

A process of its own can be ended from anywhere: a thread, a worker of a pool, a rank of a run.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import subprocess
import sys
from contextlib import suppress
from functools import lru_cache
from queue import Empty, SimpleQueue
from tempfile import TemporaryFile
from threading import Lock, Thread
from typing import IO

from relaygen_lmeval.errors import RelayGenError
from relaygen_lmeval.scoring.spelling import readings, spelled
from relaygen_lmeval.scoring.worker import READY

log = logging.getLogger(__name__)

LIMIT_S = 10.0  # most take milliseconds; math_verify itself takes 5
_START_S = 120.0
_COMMAND = (sys.executable, "-m", "relaygen_lmeval.scoring.worker")


class Verifier:
    """One worker, started when it is first needed and anew after it had to be killed.

    Args:
        limit_s: Seconds that one comparison may take.
    """

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._lock = Lock()
        self._worker: _Worker | None = None

    def equal(self, gold: str, answer: str) -> bool:
        """Whether an answer is the right one.

        Args:
            gold: LaTeX or a plain number.
            answer: The content of a box.

        Returns:
            The verdict; false, with a warning, where it took too long or too much memory.

        Raises:
            RelayGenError: math_verify is missing or does not start.
        """
        pairs = list(readings(spelled(gold), spelled(answer)))
        if any(a == b for a, b in pairs):
            return True
        with self._lock:
            return any(self._ask(*pair) for pair in pairs)

    def close(self) -> None:
        """End the worker; another question starts a new one."""
        with self._lock:
            self._end()

    def _ask(self, gold: str, answer: str) -> bool:
        worker = self._started()
        try:
            return worker.ask(gold, answer, self._limit_s)
        except (Empty, OSError, ValueError):
            self._end()
            log.warning(
                "'%.80s' could not be compared to '%.80s' within %g s: it counts as wrong",
                answer,
                gold,
                self._limit_s,
            )
            return False

    def _started(self) -> _Worker:
        # After a fork the pipes belong to the parent.
        if self._worker is None or self._worker.owner != os.getpid():
            self._worker = _Worker()
        return self._worker

    def _end(self) -> None:
        if self._worker is not None and self._worker.owner == os.getpid():
            self._worker.close()
        self._worker = None


class _Worker:
    """The process and what it wrote."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        # A file, as a pipe that nobody empties would stop the worker; closed with it.
        self._said = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self._process = subprocess.Popen(
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            text=True,
            encoding="utf-8",
        )
        self._lines: SimpleQueue[str] = SimpleQueue()
        Thread(target=self._read, args=(self._pipe("stdout"),), daemon=True).start()
        self._await_start()

    def ask(self, gold: str, answer: str, limit_s: float) -> bool:
        """Raises `Empty` after the limit, `ValueError` or `OSError` where the process is gone."""
        pipe = self._pipe("stdin")
        pipe.write(json.dumps([gold, answer]) + "\n")
        pipe.flush()
        return bool(json.loads(self._lines.get(timeout=limit_s)))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._said.close()
        for name in ("stdin", "stdout"):
            with suppress(OSError):  # a question that nobody reads any more
                self._pipe(name).close()

    def _await_start(self) -> None:
        try:
            if json.loads(self._lines.get(timeout=_START_S)) == READY:
                return
        except (Empty, ValueError):
            pass
        self._process.kill()
        self._process.wait()
        self._said.seek(0)
        said = self._said.read().strip().splitlines()
        self.close()
        raise RelayGenError(
            f"answers are compared by math_verify, which did not start ({said[-1] if said else ''}"
            "); pip install math-verify 'antlr4-python3-runtime==4.13.2'"
        )

    def _read(self, pipe: IO[str]) -> None:
        """Pass lines on, and an empty one when the process is gone."""
        try:
            for line in pipe:
                self._lines.put(line)
        except ValueError:  # closed under our hands
            return
        self._lines.put("")

    def _pipe(self, name: str) -> IO[str]:
        pipe: IO[str] = getattr(self._process, name)
        return pipe


_verifier = Verifier()
atexit.register(_verifier.close)


@lru_cache(maxsize=1 << 16)
def equal(gold: str, answer: str) -> bool:
    r"""Whether two answers are equal, by the verifier that a process shares; see `Verifier.equal`.

    Examples:
        >>> equal(r"\frac{1}{2}", r"50\%")
        True
    """
    return _verifier.equal(gold, answer)
