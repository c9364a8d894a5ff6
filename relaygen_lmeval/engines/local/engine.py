"""The asynchronous face of a lane."""

from __future__ import annotations

from relaygen_lmeval.core.policy import Move
from relaygen_lmeval.core.types import Chunk, Turn
from relaygen_lmeval.engines.local.lane import Lane
from relaygen_lmeval.engines.local.pacer import Pacer


class LocalEngine:
    """A transformers model as an engine.

    Args:
        lane: The model and its rows.
        pacer: The device it runs on; lanes of one device share it.
    """

    def __init__(self, lane: Lane, pacer: Pacer) -> None:
        self._lane = lane
        self._pacer = pacer
        pacer.add(lane)

    @property
    def kv_bytes(self) -> int:
        """What keys and values take now."""
        return self._lane.forward.kv_bytes

    async def run(self, turn: Turn) -> Chunk:
        """Write one turn, beside all others that are under way."""
        return await self._pacer.submit(self._lane, turn)

    def admit(self, move: Move) -> None:
        """See that moves like this one can be made.

        Raises:
            ConfigError: They cannot.
        """
        self._lane.admit(move)

    def release(self, seq_id: int) -> None:
        """Forget a request."""
        self._pacer.release(self._lane, seq_id)

    def close(self) -> None:
        """Stop the device's thread."""
        self._pacer.close()
