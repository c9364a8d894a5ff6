"""A model's score of a step that another wrote, from the logits of one forward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from relaygen_lmeval.core.types import Judge
from relaygen_lmeval.errors import ConfigError


def n_scored(judge: Judge, step_ids: Sequence[int]) -> int:
    """How many of the last tokens' logits a score is made of."""
    return 1 if judge.question else len(step_ids) + 1


def score(
    logits: torch.Tensor, judge: Judge, step_ids: Sequence[int], choice_ids: Sequence[int]
) -> float:
    """The score of one step.

    Args:
        logits: Raw, `[q, V]`, after each of the last `q` tokens read, `q >= n_scored`.
        judge: What was asked.
        step_ids: The step.
        choice_ids: The first token of each choice.

    Returns:
        The most probable choice's index; without choices the geometric mean of the tokens'
        probabilities, in [0, 1]. NaN where the logits are not finite.
    """
    if judge.question:
        best, index = logits[-1, list(choice_ids)].max(-1)
        return float(index) if bool(torch.isfinite(best)) else math.nan
    logprobs = logits[-len(step_ids) - 1 : -1].float().log_softmax(-1)
    own = logprobs.gather(-1, torch.tensor(step_ids, device=logits.device)[:, None])
    return float(own.mean().exp())


def choice_ids(tokenizer: Any, judge: Judge) -> list[int]:
    """The first token of each choice.

    Raises:
        ConfigError: Two choices begin alike, so that one token does not tell them apart.
    """
    ids = [tokenizer.encode(choice, add_special_tokens=False)[0] for choice in judge.choices]
    if len(set(ids)) < len(ids):
        raise ConfigError(
            f"the tokenizer of {tokenizer.name_or_path} begins some of the scores "
            f"{', '.join(judge.choices)} with the same token; set judge=likelihood"
        )
    return ids
