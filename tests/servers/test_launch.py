"""Servers are started, watched and stopped: real processes, small ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from relaygen_lmeval.core.types import Role
from relaygen_lmeval.engines import commands
from relaygen_lmeval.engines.commands import Command, Place
from relaygen_lmeval.engines.launch import ServerProcess, launch_pair, split_memory
from relaygen_lmeval.errors import ServerError
from relaygen_lmeval.models.serve import usage

# Answers /health, and has a child that must end with it.
SCRIPT = """
import http.server, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("child", child.pid, flush=True)
class Well(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Well).serve_forever()
"""


def small_server(
    python: str, name: str, place: Place, installed: object = None, *, script: str = SCRIPT
) -> Command:
    return Command([python, "-c", script, str(place.port)], {})


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text(encoding="utf-8").split()[2] != "Z"


@pytest.fixture(autouse=True)
def _vllm_is_a_small_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "COMMANDS", {"vllm": small_server})
    monkeypatch.setattr(commands, "look", lambda python: {"vllm": True, "xllamacpp": False})


def test_both_servers_start_and_end_with_their_children():
    servers = launch_pair({role: (role.value, []) for role in Role}, "vllm")

    logs = [server.log_path.read_text(encoding="utf-8") for server in servers.values()]
    pids = [int(text.split()[1]) for text in logs] + [server.pid for server in servers.values()]
    assert all(map(lives, pids))
    for server in servers.values():
        server.stop()
        server.stop()
    assert not any(map(lives, pids))


def test_a_server_that_ends_at_once_is_reported_with_its_log(monkeypatch):
    monkeypatch.setattr(
        commands,
        "COMMANDS",
        {"vllm": lambda *a: small_server(*a, script="raise SystemExit('no weights here')")},
    )

    with pytest.raises(ServerError, match=r"'large' ended with code 1: .*(?s:.*)no weights here"):
        launch_pair({Role.LARGE: ("large", [])}, "vllm")


def test_if_the_second_does_not_start_the_first_is_stopped(monkeypatch):
    started: list[ServerProcess] = []
    real = ServerProcess.wait

    def wait(self: ServerProcess, timeout_s: float = 30.0) -> None:
        started.append(self)
        if len(started) == 2:
            raise ServerError("the second is unwell")
        real(self, timeout_s)

    monkeypatch.setattr(ServerProcess, "wait", wait)

    with pytest.raises(ServerError, match="the second is unwell"):
        launch_pair({role: (role.value, []) for role in Role}, "vllm")

    assert not any(lives(server.pid) for server in started)


def test_a_server_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(commands, "look", lambda python: {"vllm": False, "xllamacpp": False})

    with pytest.raises(ServerError, match="vllm is not installed for"):
        launch_pair({Role.LARGE: ("large", [])}, "vllm")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_or_the_end_of_the_run_stops_both(number, tmp_path):
    """In a process of its own, as `relaygen serve` is one."""
    code = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from relaygen_lmeval.models import serve
from relaygen_lmeval.engines import commands
from tests.servers.test_launch import small_server
commands.COMMANDS = {{"vllm": small_server}}
commands.look = lambda python: {{"vllm": True}}
serve.serve_pair("", "", "vllm", say=lambda text: print(text, flush=True))
"""
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    line = run.stdout.readline()
    assert "engine=server" in line
    children = _children(run.pid)
    assert len(children) == 2

    run.send_signal(number)
    run.wait(30)
    run.stdout.close()

    assert not any(map(lives, children))


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    if not path.exists():
        pytest.skip("no /proc here to find the servers in")
    time.sleep(0.1)
    return [int(child) for child in path.read_text(encoding="utf-8").split()]


def test_memory_is_split_by_size():
    assert split_memory(32_000, 1_700) == {Role.LARGE: 0.75, Role.SMALL: 0.15}
    assert split_memory(1, 1) == {Role.LARGE: 0.45, Role.SMALL: 0.45}
    assert split_memory(7, None) == {Role.LARGE: 0.9}


def test_usage_names_both_urls():
    servers = launch_pair({role: (role.value, []) for role in Role}, "vllm")
    try:
        line = usage("a/large", "a/small", servers)
    finally:
        for server in servers.values():
            server.stop()

    assert f"base_url={servers[Role.LARGE].url},small_base_url={servers[Role.SMALL].url}" in line


@pytest.mark.parametrize(
    ("share", "wanted"),
    [(0.75, ["--gpu-memory-utilization", "0.75"]), (None, ["--dtype", "float32"])],
)
def test_vllm_gets_its_part_of_the_machine(share, wanted):
    place = Place(8000, share, (2, 3))

    command = commands._vllm("python", "m", place, {"times": True})

    assert command.arguments[-len(wanted) :] == wanted or wanted[0] in command.arguments
    assert "--enable-per-request-metrics" in command.arguments
    assert command.environment["VLLM_MAX_STOP_STRINGS"] == "1024"
    assert ("VLLM_CPU_OMP_THREADS_BIND" in command.environment) == (share is None)
