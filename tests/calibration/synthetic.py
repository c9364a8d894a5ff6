"""Traces with planted cues: their margins are made, not measured."""

from __future__ import annotations

from collections.abc import Sequence

from relaygen_lmeval.calibration.statistics import ScoredTrace

Sentence = tuple[list[str], list[float]]


def sentence(cue: str | None, margins: Sequence[float], before: float = 0.5) -> Sentence:
    """A cue (or another first word), a word for every margin, and a sure full stop."""
    words = [f" w{i}" for i in range(len(margins))]
    return [f" {cue or 'Ana'}", *words, "."], [before, *margins, 1.0]


def trace(*sentences: Sentence) -> ScoredTrace:
    texts = [text for texts, _ in sentences for text in texts]
    margins = [margin for _, margins in sentences for margin in margins]
    return ScoredTrace(tuple(texts), tuple(margins))
