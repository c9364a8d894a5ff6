"""Which engine runs a model: in this process, behind a server, or behind one that is started."""

from __future__ import annotations

from collections.abc import Collection

from relaygen_lmeval.config import RelayConfig
from relaygen_lmeval.core.types import Role
from relaygen_lmeval.engines.base import Engine
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.lanes import local_engines
from relaygen_lmeval.pair import Pair, load_pair


def make_pair(config: RelayConfig) -> Pair:
    """Load both models here, or reach their servers.

    Raises:
        ConfigError: What cannot be loaded, or the extra that is missing.
        ServerError: A server that is not there, or cannot serve a relay.
    """
    if config.engine == "local":
        return load_pair(config)
    try:
        from relaygen_lmeval.served import load_served_pair
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"engine={config.engine} needs {error.name}: pip install 'relaygen-lmeval[server]'"
        ) from error
    return load_served_pair(config)


def make_engines(config: RelayConfig, pair: Pair, roles: Collection[Role]) -> dict[Role, Engine]:
    """The engine of each role that the policy asks."""
    if config.engine == "local":
        return dict(local_engines(config, pair, roles))
    from relaygen_lmeval.served import server_engines

    return dict(server_engines(config, pair, roles))
