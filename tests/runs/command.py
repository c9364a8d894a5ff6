"""The harness's command in real processes, forked from one that has imported everything."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import socket
import sys
import time
from collections.abc import Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from relaygen_lmeval.errors import RelayGenError

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["lm_eval.__main__", "relaygen_lmeval.harness.model", __name__])


def command(folder: Path, *arguments: str, **options: Any) -> list[str]:
    """`lm_eval --model relaygen`, its journal in `folder/log`, its results in `folder/results`.

    Args:
        folder: Is made.
        arguments: Of the command.
        options: More `--model_args`.
    """
    folder.mkdir(exist_ok=True)
    model_args = ",".join(f"{k}={v}" for k, v in {"log_dir": folder / "log", **options}.items())
    return [
        *("lm_eval", "--model", "relaygen", "--model_args", model_args, "--apply_chat_template"),
        *("--output_path", str(folder / "results"), "--log_samples", *arguments),
    ]


def start(
    folder: Path, *arguments: str, max_file_bytes: int | None = None, **options: Any
) -> BaseProcess:
    """One process of `command`; what it says goes to `stderr.txt` in the folder.

    Args:
        folder: As for `command`, and the rest.
        max_file_bytes: No file gets longer, as if the disk were full.
    """
    return _start(folder, command(folder, *arguments, **options), {}, max_file_bytes)


def start_many(folder: Path, n: int, *arguments: str, **options: Any) -> list[BaseProcess]:
    """`n` processes that share one run, told so as `torchrun` tells them."""
    told = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(n)}
    line = command(folder, *arguments, **options)
    return [
        _start(folder, line, {**told, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(n)
    ]


def exit_code(process: BaseProcess, timeout_s: float = 120.0) -> int:
    """Of a process that ends in time."""
    process.join(timeout_s)
    assert process.exitcode is not None, "the process has not ended"
    return process.exitcode


def lines(folder: Path) -> list[bytes]:
    """All lines of the journals in `folder/log`, a torn last one too."""
    return [
        line
        for path in sorted((folder / "log").glob("journal*.jsonl"))
        for line in path.read_bytes().splitlines(keepends=True)
    ]


def requests(folder: Path) -> list[dict[str, Any]]:
    """The whole records of finished requests in `folder/log`."""
    found = [json.loads(line) for line in lines(folder) if line.endswith(b"\n")]
    return [record for record in found if record["kind"] == "request"]


def wait_for(folder: Path, n: int, process: BaseProcess) -> None:
    """Until the journal has `n` lines, or the process has ended."""
    while len(lines(folder)) < n and process.is_alive():
        time.sleep(0.005)


def results(folder: Path) -> dict[str, Any]:
    """The newest `results.json`."""
    newest = max((folder / "results").rglob("results*.json"), key=lambda file: file.name)
    content: dict[str, Any] = json.loads(newest.read_text())
    return content


def scores(folder: Path) -> dict[str, Any]:
    """What the harness scored, the rows of seconds left out."""
    return {
        task: {name: value for name, value in of.items() if not name.startswith("e2e_s")}
        for task, of in results(folder)["results"].items()
    }


def samples(folder: Path) -> list[Mapping[str, Any]]:
    """What the harness logged of each document, in their order."""
    newest = max((folder / "results").rglob("samples_*.jsonl"), key=lambda file: file.name)
    found = [json.loads(line) for line in newest.read_text().split("\n") if line]
    return sorted(found, key=lambda sample: sample["doc_id"])


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _start(
    folder: Path, line: list[str], told: Mapping[str, str], max_file_bytes: int | None = None
) -> BaseProcess:
    given = (folder, line, told, max_file_bytes)
    process: BaseProcess = _FORKS.Process(target=_evaluate, args=given)
    process.start()
    return process


def _evaluate(
    folder: Path, line: list[str], told: Mapping[str, str], max_file_bytes: int | None
) -> None:
    import lm_eval.tasks.manager
    from lm_eval.__main__ import cli_evaluate

    from relaygen_lmeval._hook import install

    # Looking through the harness's own thousands of tasks takes seconds, each time.
    lm_eval.tasks.manager.__file__ = str(folder / "none.py")
    with (folder / "stderr.txt").open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    install()
    os.environ.update(told)
    if max_file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_bytes, max_file_bytes))
    sys.argv = line
    try:
        cli_evaluate()
    except RelayGenError:
        sys.excepthook(*sys.exc_info())  # as for a command, and not as multiprocessing would
        sys.exit(1)
