"""Starts real servers for a pair, one after the other, waits until they are well, stops them.

It knows processes, and neither models nor turns.
"""

from __future__ import annotations

import atexit
import logging
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import httpx

from relaygen_lmeval.core.types import Role
from relaygen_lmeval.engines import commands
from relaygen_lmeval.engines.commands import HOST, KINDS, Command, Place
from relaygen_lmeval.errors import ServerError

log = logging.getLogger(__name__)

_READY_S = 1800.0  # a large model's weights may have to be downloaded first
_STOP_S = 20.0
_N_LINES = 12  # of a server's log that an error shows
_MOST_OF_MEMORY = 0.9  # vLLM's own default
_LEAST_SHARE = 0.15  # a small model needs room for its cache, too


class ServerProcess:
    """One server that was started here.

    Args:
        name: The model's.
        command: What is run.
        port: Where it will listen.
        log_path: Where its output goes.
    """

    def __init__(self, name: str, command: Command, port: int, log_path: Path) -> None:
        self.name = name
        self.url = f"http://{HOST}:{port}"
        self.log_path = log_path
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it would tell of every look
        with log_path.open("wb") as out:
            self._process = subprocess.Popen(
                command.arguments,
                env={**os.environ, **command.environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is ours; its whole group is ended in `stop`
            )
        _stop_at_exit(self.stop)

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def check(self) -> None:
        """Refuse to go on without it.

        Raises:
            ServerError: It has ended; the end of its log says why.
        """
        if not self.runs:
            code = self._process.returncode
            raise ServerError(f"the server of '{self.name}' ended with code {code}: {self._said()}")

    def wait(self, timeout_s: float = _READY_S) -> None:
        """Wait until the server answers.

        Raises:
            ServerError: It ended, or did not answer in time; the end of its log says why.
        """
        end_s = monotonic() + timeout_s
        while monotonic() < end_s:
            self.check()
            if _is_well(self.url):
                return
            sleep(0.5)
        self.stop()
        raise ServerError(
            f"the server of '{self.name}' was not ready after {timeout_s:g} s: {self._said()}"
        )

    def stop(self) -> None:
        """End the server and its children; doing it twice is no mistake."""
        atexit.unregister(self.stop)
        for number, wait_s in ((signal.SIGTERM, _STOP_S), (signal.SIGKILL, 5.0)):
            _signal_group(self._process.pid, number)
            if _ended(self._process, wait_s):
                break
        _signal_group(self._process.pid, signal.SIGKILL)  # children that outlived it

    def _said(self) -> str:
        lines = self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        return f"its log {self.log_path} ends:\n" + "\n".join(lines[-_N_LINES:])


def launch_pair(
    wanted: Mapping[Role, tuple[str, Sequence[str]]],
    kind: str | None = None,
    *,
    python: str | None = None,
    shares: Mapping[Role, float] | None = None,
) -> dict[Role, ServerProcess]:
    """Start a server for each model, one after the other: each measures what memory is free.

    Args:
        wanted: Name of each model, and more arguments for its server.
        kind: One of `KINDS`; `None`: the first that is installed.
        python: The Python that has the server's package; default: this one.
        shares: Part of the GPU's memory for each; `None` without a GPU.

    Raises:
        ServerError: None is installed, or one that did not start.
    """
    python = python or sys.executable
    installed = commands.look(python)
    kind = kind or next((name for name in KINDS if commands.has(installed, name)), None)
    if kind is None or not commands.has(installed, kind):
        raise ServerError(
            f"{kind or 'no server'} is {'not ' if kind else ''}installed for {python}: install one "
            f"of {', '.join(KINDS)} (llama.cpp: xllamacpp), or name another Python that has it"
        )
    folder = Path(tempfile.mkdtemp(prefix="relaygen-servers-"))
    cores = _halves(sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0])
    started: dict[Role, ServerProcess] = {}
    try:
        for role, (name, more) in wanted.items():
            place = Place(_free_port(), (shares or {}).get(role), cores[role])
            command = commands.COMMANDS[kind](python, name, place, installed)
            command.arguments.extend(more)
            log.info("starting %s for '%s': %s", kind, name, shlex.join(command.arguments))
            path = folder / f"{role.value}.log"
            started[role] = ServerProcess(name, command, place.port, path)
            started[role].wait()
            log.info("ready: %s, log %s", started[role].url, path)
    except BaseException:
        for process in started.values():
            process.stop()
        raise
    return started


def split_memory(n_large: int, n_small: int | None) -> dict[Role, float]:
    """Divide a GPU between two models by their numbers of weights, or give it to one.

    Examples:
        >>> split_memory(32, 2)
        {<Role.LARGE: 'large'>: 0.75, <Role.SMALL: 'small'>: 0.15}
    """
    if n_small is None:
        return {Role.LARGE: _MOST_OF_MEMORY}
    total = max(1, n_large + n_small)
    small = max(_LEAST_SHARE, _MOST_OF_MEMORY * n_small / total)
    return {Role.LARGE: round(_MOST_OF_MEMORY - small, 2), Role.SMALL: round(small, 2)}


def _halves(cores: Sequence[int]) -> dict[Role, tuple[int, ...]]:
    """The cores of each server; a machine with one core shares it."""
    half = (len(cores) + 1) // 2
    return {Role.LARGE: tuple(cores[:half]), Role.SMALL: tuple(cores[half:] or cores)}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])


def _is_well(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5.0, trust_env=False).is_success
    except httpx.TransportError:
        return False


def _signal_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # all of it has ended
        os.killpg(pid, number)


def _ended(process: subprocess.Popen[bytes], wait_s: float) -> bool:
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _stop_at_exit(stop: Callable[[], None]) -> None:
    """Also where this process is told to end, which by itself would run no `atexit`."""
    atexit.register(stop)
    on_main = threading.current_thread() is threading.main_thread()
    if on_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
