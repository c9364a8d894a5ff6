"""Which engine runs a model: in this process, behind a server, or behind one that is started."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from relaygen_lmeval.core.types import Role
from relaygen_lmeval.engines.base import Engine
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.models.lanes import local_engines
from relaygen_lmeval.models.pair import Pair, load_pair
from relaygen_lmeval.options.config import RelayConfig

# What decides how models are loaded or reached; the rest of a configuration is how they are used.
_LOADED_BY = (
    "pretrained",
    "small",
    "large_options",
    "small_options",
    "engine",
    "base_url",
    "small_base_url",
    "timeout",
    "max_retries",
    "abilities",
    "small_abilities",
    "server_args",
    "small_server_args",
    "server_python",
)
_shared: ContextVar[dict[str, Pair] | None] = ContextVar("shared pairs", default=None)


@contextmanager
def shared_pairs() -> Iterator[None]:
    """Within, models are loaded once and used by every run that names them alike."""
    token = _shared.set({})
    try:
        yield
    finally:
        _shared.reset(token)


def make_pair(config: RelayConfig) -> Pair:
    """Load both models here, or reach their servers; within `shared_pairs`, once.

    Raises:
        ConfigError: What cannot be loaded, or the extra that is missing.
        ServerError: A server that is not there, or cannot serve a relay.
    """
    shared = _shared.get()
    if shared is None:
        return _make_pair(config)
    rows = config.n_rows if config.engine != "local" else None  # connections of a client
    key = repr(([(name, getattr(config, name)) for name in _LOADED_BY], rows))
    if key not in shared:
        shared[key] = _make_pair(config)
    return shared[key]


def _make_pair(config: RelayConfig) -> Pair:
    """Load both models here, or reach their servers.

    Raises:
        ConfigError: What cannot be loaded, or the extra that is missing.
        ServerError: A server that is not there, or cannot serve a relay.
    """
    if config.engine == "local":
        return load_pair(config)
    try:
        from relaygen_lmeval.models.served import load_served_pair
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"engine={config.engine} needs {error.name}: pip install 'relaygen-lmeval[server]'"
        ) from error
    return load_served_pair(config)


def make_engines(config: RelayConfig, pair: Pair, roles: Collection[Role]) -> dict[Role, Engine]:
    """The engine of each role that the policy asks."""
    if config.engine == "local":
        return dict(local_engines(config, pair, roles))
    from relaygen_lmeval.models.served import server_engines

    return dict(server_engines(config, pair, roles))
