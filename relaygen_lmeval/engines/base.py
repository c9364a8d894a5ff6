"""The one seam between decisions and models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from relaygen_lmeval.core.policy import Move
from relaygen_lmeval.core.types import Chunk, Role, Turn


class Engine(Protocol):
    """One model that writes turns. Many turns may be under way at once."""

    async def run(self, turn: Turn) -> Chunk:
        """Write one turn.

        Returns:
            The tokens up to the stop, in whole tokens; what lies beyond is given back.

        Raises:
            EngineError: If the model or its device failed; names the request.
        """

    def admit(self, move: Move) -> None:
        """See that moves like this one can be made, before anything is written.

        Raises:
            ConfigError: They cannot; says what to do.
        """

    def release(self, seq_id: int) -> None:
        """Forget a request; what it held is free for others."""

    def close(self) -> None:
        """Stop working and free everything."""


Engines = Mapping[Role, Engine]
