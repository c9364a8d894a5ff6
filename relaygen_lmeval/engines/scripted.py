"""An engine that answers from a script: for tests, documentation and dry runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from relaygen_lmeval.core.policy import Move
from relaygen_lmeval.core.stops import Scanner
from relaygen_lmeval.core.types import Chunk, EndedBy, Turn
from relaygen_lmeval.errors import ConfigError, EngineError

EOS = "<eos>"


class ScriptedEngine:
    """Writes the pieces of a script as its tokens, and stops where a real engine would.

    Args:
        script: Pieces of text, one token each, `EOS` ends the text; or a function that gives
            the pieces for a turn. Pieces beyond a stop are kept for the next turn.

    Attributes:
        turns: What it was asked, in order.

    Examples:
        >>> engine = ScriptedEngine(["So", ",", " 21", EOS])
        >>> engine.turns
        []
    """

    def __init__(
        self,
        script: Iterable[str] | Callable[[Turn], Iterable[str]],
    ) -> None:
        self._make = script if callable(script) else None
        self._pieces = [] if callable(script) else list(script)
        self.turns: list[Turn] = []

    async def run(self, turn: Turn) -> Chunk:
        """Write the next pieces of the script up to the turn's stop."""
        self.turns.append(turn)
        most = turn.max_tokens + 1  # and an `EOS`; a script may go on for ever
        pieces = list(islice(self._make(turn), most)) if self._make else self._pieces
        if not pieces:
            raise EngineError(f"the script of the {turn.role.value} model ran out of pieces")
        written, ended_by, matched = _write(turn, iter(pieces))
        if not self._make:
            del self._pieces[: len(written) + (ended_by == "eos")]
        text = "".join(written)
        ids = tuple(_id(piece) for piece in written)
        return Chunk(turn.role, turn.phase, text, ids, len(ids), ended_by, matched)

    def admit(self, move: Move) -> None:
        """A script can write anything, but it is sure of it all and judges nothing.

        Raises:
            ConfigError: The move asks for doubt or for a judgement.
        """
        if move.judge or move.rule.doubt:
            raise ConfigError("a script has no probabilities: choose a policy without them")

    def release(self, seq_id: int) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Nothing is held."""


def _write(turn: Turn, pieces: Iterator[str]) -> tuple[list[str], EndedBy, str | None]:
    scanner = Scanner(turn.rule, turn.before)
    written: list[str] = []
    for piece in pieces:
        if piece == EOS:
            stop = scanner.finish()
            return (
                (written, "boundary", None)
                if stop and stop.reason == "boundary"
                else (
                    written,
                    "eos",
                    None,
                )
            )
        written.append(piece)
        if stop := scanner.feed(piece):
            return _keep(written, stop.end), stop.reason, stop.matched
        if len(written) == turn.max_tokens:
            return written, "length", None
    return written, "eos", None


def _keep(pieces: list[str], end: int) -> list[str]:
    """The pieces that begin before `end`, in characters."""
    kept, position = [], 0
    for piece in pieces:
        if position >= end:
            break
        kept.append(piece)
        position += len(piece)
    return kept


def _id(piece: str) -> int:
    """A stable number for a piece; scripted tokens have no vocabulary."""
    return int.from_bytes(piece.encode()[:4].ljust(4, b"\0"), "big")
