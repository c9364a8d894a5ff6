"""Which engine runs a model: in this process, behind a server, or behind one that is started."""

from __future__ import annotations

from relaygen_lmeval.config import RelayConfig
from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.types import Role
from relaygen_lmeval.engines.base import Engine
from relaygen_lmeval.engines.local import LocalEngine
from relaygen_lmeval.engines.local.lane import Lane
from relaygen_lmeval.engines.local.pacer import Pacer
from relaygen_lmeval.errors import ConfigError
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


class EngineMaker:
    """Makes the engines of one pair; those of one device share its pace."""

    def __init__(self, config: RelayConfig, pair: Pair, cues: CueTable | None) -> None:
        self._config = config
        self._pair = pair
        self._cues = cues
        self._pacers: dict[str, Pacer] = {}

    def __call__(self, role: Role) -> Engine:
        """The engine of a role."""
        return self._local(role) if self._config.engine == "local" else self._server(role)

    def _local(self, role: Role) -> LocalEngine:
        model = self._pair[role]
        lane = Lane(
            role,
            model.model,
            model.tokenizer,
            n_rows=self._config.n_rows,
            cues=self._cues,
            shares_ids=self._pair.shares_ids,
            compiled=self._config.compile == "on",
        )
        pacer = self._pacers.setdefault(str(model.device), Pacer())
        return LocalEngine(lane, pacer)

    def _server(self, role: Role) -> Engine:
        from relaygen_lmeval.served import ServedModel, make_server_engine

        model = self._pair[role]
        assert isinstance(model, ServedModel)
        return make_server_engine(
            role, model, cues=self._cues, shares_ids=self._pair.shares_ids, cut=self._config.cut
        )
