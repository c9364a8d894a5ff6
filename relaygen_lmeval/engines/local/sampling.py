"""Choosing the next token of each row from its logits."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from relaygen_lmeval.core.types import SamplingParams

NOT_FINITE = -1  # for a token, where a row's logits are not


class Draw(NamedTuple):
    """What decides one row's next token: its settings, its place in the text.

    And its ids so far, which a repetition penalty alone asks for.
    """

    sampling: SamplingParams
    ids: Sequence[int]
    position: int

    @property
    def plain(self) -> bool:
        """Whether the token is simply the one with the highest logit."""
        return self.sampling.greedy and self.sampling.repetition_penalty == 1.0

    def after(self, tokens: Sequence[int]) -> Draw:
        """The draw of the token that follows `tokens`."""
        ids = [*self.ids, *tokens] if self.ids else self.ids
        return Draw(self.sampling, ids, self.position + len(tokens))

    def mark(self, use: str = "") -> float:
        """The number in [0, 1) that decides this token; another one for another use."""
        return uniform(self.sampling.seed, self.position, use)


def choose(logits: torch.Tensor, draws: Sequence[Draw]) -> list[int]:
    """Choose one token a row.

    Args:
        logits: Raw, `[n, V]`.
        draws: One a row.

    Returns:
        The token ids; `NOT_FINITE` where a row's logits are not.
    """
    logits = logits.float()
    best, ids = logits.max(-1)
    if all(draw.plain for draw in draws):
        picked: list[int] = ids.tolist()
    else:
        rows = [choose_row(scores, draw) for scores, draw in zip(logits, draws, strict=True)]
        picked = torch.stack(rows).tolist()
    if bool(torch.isfinite(best).all()):
        return picked
    return [
        token if finite else NOT_FINITE
        for token, finite in zip(picked, torch.isfinite(best).tolist(), strict=True)
    ]


def choose_row(scores: torch.Tensor, draw: Draw) -> torch.Tensor:
    """Choose a token from the logits `[V]` of one row."""
    if draw.sampling.greedy:
        return processed(scores, draw).argmax(-1)
    return pick(odds(scores, draw), draw.mark())


def odds(scores: torch.Tensor, draw: Draw) -> torch.Tensor:
    """The distribution a token is drawn from, `[V]`, all settings applied.

    In float64, for a sum over 150,000 tokens needs its digits.
    """
    return processed(scores, draw).softmax(-1, dtype=torch.float64)


def processed(scores: torch.Tensor, draw: Draw) -> torch.Tensor:
    """Logits `[V]` with the settings applied."""
    ids = torch.tensor([list(draw.ids)], dtype=torch.long, device=scores.device)
    out: torch.Tensor = processors(draw.sampling)(ids, scores.float()[None])[0]  # type: ignore[arg-type]
    return out


def pick(weights: torch.Tensor, mark: float) -> torch.Tensor:
    """The token at which the running sum of `weights` `[V]` passes the share `mark` of it all.

    One number a token, drawn from the request's own seed and the token's place: the same
    whatever shares the batch.
    """
    cumulative = weights.cumsum(-1)
    found = torch.searchsorted(cumulative, mark * cumulative[-1], right=True)
    return found.clamp_max(len(weights) - 1)


def uniform(seed: int, position: int, use: str = "") -> float:
    """The number in [0, 1) that decides the token at `position` of the request `seed`."""
    return random.Random(f"{seed}:{position}{use}").random()


@lru_cache(maxsize=64)
def processors(sampling: SamplingParams) -> LogitsProcessorList:
    """The transformers processors of these settings, in the order `generate` applies them."""
    steps: list[Any] = []
    if sampling.repetition_penalty != 1.0:
        steps.append(RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty))
    if not sampling.greedy:
        if sampling.temperature != 1.0:
            steps.append(TemperatureLogitsWarper(sampling.temperature))
        if sampling.top_k > 0:
            steps.append(TopKLogitsWarper(sampling.top_k))
        if sampling.top_p < 1.0:
            steps.append(TopPLogitsWarper(sampling.top_p))
        if sampling.min_p > 0.0:
            steps.append(MinPLogitsWarper(sampling.min_p))
    return LogitsProcessorList(steps)
