"""Command lines of the servers that can be started, and which of them are installed.

It runs none of them; `launch` does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relaygen_lmeval.errors import ServerError

KINDS = ("vllm", "sglang", "llama.cpp")
HOST = "127.0.0.1"
# Run in the server's Python: what it can start.
_LOOK = """
import importlib.util, json, pathlib
found = {name: importlib.util.find_spec(name) for name in ("vllm", "sglang", "xllamacpp")}
vllm = found["vllm"]
files = list(pathlib.Path(vllm.origin).parent.glob("entrypoints/**/cli_args.py")) if vllm else []
times = any("enable_per_request_metrics" in file.read_text() for file in files)
print(json.dumps({**{k: v is not None for k, v in found.items()}, "times": times}))
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server runs.

    Attributes:
        port: Its port on this machine.
        share: Part of the GPU's memory; `None` on a machine without one.
        cores: Processor cores it may use, on such a machine.
    """

    port: int
    share: float | None
    cores: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A command line and what its environment must hold."""

    arguments: list[str]
    environment: dict[str, str]


def look(python: str) -> dict[str, Any]:
    """What a Python has installed.

    Raises:
        ServerError: It does not run.
    """
    try:
        shown = subprocess.run([python, "-c", _LOOK], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ServerError(f"'{python}' does not run: name a Python that has the server") from error
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def has(installed: Mapping[str, Any], kind: str) -> bool:
    """Whether a kind of server can be started."""
    if kind == "llama.cpp":
        return bool(installed["xllamacpp"] or shutil.which("llama-server"))
    return bool(installed.get(kind))


def _vllm(python: str, name: str, place: Place, installed: Mapping[str, Any]) -> Command:
    arguments = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", name]
    arguments += ["--served-model-name", name, "--host", HOST, "--port", str(place.port)]
    if installed["times"]:
        arguments.append("--enable-per-request-metrics")
    # Cue tables have more stop strings than the four it takes by default.
    environment = {"VLLM_MAX_STOP_STRINGS": "1024", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    if place.share is not None:
        arguments += ["--gpu-memory-utilization", str(place.share)]
    else:
        arguments += ["--dtype", "float32", "--enforce-eager"]
        bound = ",".join(map(str, place.cores))
        on_cpu = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": bound}
        on_cpu["TORCHDYNAMO_DISABLE"] = "1"
        environment |= {k: os.environ.get(k, v) for k, v in on_cpu.items()}
    return Command(arguments, environment)


def _sglang(python: str, name: str, place: Place, installed: Mapping[str, Any]) -> Command:
    arguments = [python, "-m", "sglang.launch_server", "--model-path", name]
    arguments += ["--served-model-name", name, "--host", HOST, "--port", str(place.port)]
    if place.share is not None:
        arguments += ["--mem-fraction-static", str(place.share)]
    return Command(arguments, {})


def _llama_cpp(python: str, name: str, place: Place, installed: Mapping[str, Any]) -> Command:
    threads = str(len(place.cores))
    common = ["--port", str(place.port), "--threads", threads]
    if binary := shutil.which("llama-server"):
        return Command([binary, "--model", _gguf(name), "--host", HOST, *common], {})
    script = str(Path(__file__).with_name("llama_server.py"))
    return Command([python, script, _gguf(name), *common], {})


COMMANDS: Mapping[str, Callable[[str, str, Place, Mapping[str, Any]], Command]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "llama.cpp": _llama_cpp,
}


def _gguf(name: str) -> str:
    """The model's file: named itself, alone in its folder, or beside the folder of its name."""
    path = Path(name)
    found = [path] if path.suffix == ".gguf" else [*path.glob("*.gguf"), path.with_suffix(".gguf")]
    for file in found:
        if file.is_file():
            return str(file)
    raise ServerError(f"llama.cpp needs a .gguf file, and '{name}' has none: name one")
