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


class Draw(NamedTuple):
    """What decides one row's next token: its settings, its place in the text.

    And its ids so far, which a repetition penalty alone asks for.
    """

    sampling: SamplingParams
    ids: Sequence[int]
    position: int


def choose(logits: torch.Tensor, draws: Sequence[Draw]) -> list[int]:
    """Choose one token a row.

    Args:
        logits: Raw, `[n, V]`.
        draws: One a row.

    Returns:
        The token ids; -1 where a row's logits are not finite.
    """
    logits = logits.float()
    best, ids = logits.max(-1)
    picked = ids.tolist() if all(_plain(d.sampling) for d in draws) else _pick(logits, draws)
    if bool(torch.isfinite(best).all()):
        return picked
    return [
        token if finite else -1
        for token, finite in zip(picked, torch.isfinite(best).tolist(), strict=True)
    ]


def _plain(sampling: SamplingParams) -> bool:
    return sampling.greedy and sampling.repetition_penalty == 1.0


def _pick(logits: torch.Tensor, draws: Sequence[Draw]) -> list[int]:
    rows = [_pick_row(logits[i : i + 1], draw) for i, draw in enumerate(draws)]
    return torch.stack(rows).tolist()


def _pick_row(scores: torch.Tensor, draw: Draw) -> torch.Tensor:
    ids = torch.tensor([list(draw.ids)], dtype=torch.long, device=scores.device)
    scores = processors(draw.sampling)(ids, scores)[0]  # type: ignore[arg-type]
    if draw.sampling.greedy:
        return scores.argmax(-1)
    # One number a token, drawn from the request's own seed and the token's place: the same
    # whatever shares the batch. float64, for a sum over 150,000 tokens needs its digits.
    cumulative = scores.softmax(-1, dtype=torch.float64).cumsum(-1)
    mark = uniform(draw.sampling.seed, draw.position) * cumulative[-1]
    return torch.searchsorted(cumulative, mark, right=True).clamp_max(len(scores) - 1)


def uniform(seed: int, position: int) -> float:
    """The number in [0, 1) that decides the token at `position` of the request `seed`."""
    return random.Random(f"{seed}:{position}").random()


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
