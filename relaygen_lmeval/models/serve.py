"""Real servers for a pair: `relaygen serve`, and those of `engine=vllm`."""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Callable, Mapping, Sequence

import torch
from transformers import AutoConfig

from relaygen_lmeval.core.types import Role
from relaygen_lmeval.demo import demo_path
from relaygen_lmeval.engines.launch import ServerProcess, launch_pair, split_memory
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.models.elsewhere import count_parameters

log = logging.getLogger(__name__)


def serve_pair(
    pretrained: str,
    small: str,
    kind: str | None,
    *,
    server_args: str = "",
    small_server_args: str = "",
    python: str | None = None,
    say: Callable[[str], None],
) -> None:
    """Start both servers, print how to use them, and stop them when told to.

    Args:
        pretrained: The large model; empty, with `small`: the embedded pair.
        small: The small model.
        kind: Which server; `None`: the first that is installed.
        server_args: More arguments for both.
        small_server_args: More for the small model's alone.
        python: The Python that has the server's package.
        say: Shows a text to the user.

    Raises:
        ConfigError: One model without the other.
        ServerError: One that did not start.
    """
    if bool(pretrained) != bool(small):
        raise ConfigError("a pair is two models: give both --pretrained and --small, or neither")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    pretrained = pretrained or str(demo_path() / "large")
    small = small or str(demo_path() / "small")
    more = {Role.LARGE: server_args, Role.SMALL: f"{server_args} {small_server_args}"}
    names = {Role.LARGE: pretrained, Role.SMALL: small}
    wanted = {role: (name, shlex.split(more[role])) for role, name in names.items()}
    servers = start_servers(wanted, kind, python=python)
    try:
        say(usage(pretrained, small, servers))
        _wait(servers)
    except KeyboardInterrupt:
        log.info("stopping both servers")
    finally:
        for server in servers.values():
            server.stop()


def start_servers(
    wanted: Mapping[Role, tuple[str, Sequence[str]]], kind: str | None, *, python: str | None = None
) -> dict[Role, ServerProcess]:
    """Start a server for each model; on a GPU they divide its memory by their sizes.

    Args:
        wanted: Name of each model, and more arguments for its server.
        kind: Which server; `None`: the first that is installed.
        python: The Python that has the server's package.
    """
    shares = None
    if torch.cuda.is_available():
        sizes = {role: _size(name) for role, (name, _) in wanted.items()}
        shares = split_memory(sizes[Role.LARGE], sizes.get(Role.SMALL))
    return launch_pair(wanted, kind, python=python, shares=shares)


def usage(pretrained: str, small: str, servers: Mapping[Role, ServerProcess]) -> str:
    """The command that evaluates with these servers."""
    return (
        f"lm_eval --model relaygen --model_args engine=server,pretrained={pretrained},"
        f"small={small},base_url={servers[Role.LARGE].url},"
        f"small_base_url={servers[Role.SMALL].url} --tasks TASK --apply_chat_template\n"
        "Ctrl-C stops both servers."
    )


def _wait(servers: Mapping[Role, ServerProcess]) -> None:
    while all(server.runs for server in servers.values()):
        time.sleep(0.5)
    for server in servers.values():
        server.check()


def _size(name: str) -> int:
    """Number of weights, or 1 where the name alone does not tell: the memory is then halved."""
    try:
        return count_parameters(AutoConfig.from_pretrained(name)) or 1
    except (OSError, ValueError):
        return 1
