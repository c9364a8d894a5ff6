"""The floor of a decode step: the model's bare compiled forward, and nothing else."""

from __future__ import annotations

import logging
from statistics import median
from time import perf_counter
from typing import Any

import torch
from transformers.cache_utils import StaticCache

from relaygen_lmeval.engines.local.forward import cache_argument

log = logging.getLogger(__name__)

_LENGTH = 256  # cache of the measured step, tokens
_WARM_UP, _MEASURED = 20, 100


def bare_step_s(model: Any) -> float:
    """Time one token's compiled forward at batch 1, the choice of the token included.

    Args:
        model: A causal transformers model.

    Returns:
        The median in seconds; of the plain forward where nothing can be compiled here.
    """
    try:
        return _time(model, torch.compile(model, dynamic=False))
    except Exception as error:  # noqa: BLE001  no compiler, or a model it cannot take
        log.warning("the forward cannot be compiled here (%s): the plain one is the floor", error)
        return _time(model, model)


@torch.inference_mode()
def _time(model: Any, forward: Any) -> float:
    cache = StaticCache(config=model.config, max_cache_len=_LENGTH)
    argument = cache_argument(model) or "past_key_values"
    token = torch.zeros(1, 1, dtype=torch.long, device=model.device)
    times_s = []
    for position in range(_WARM_UP + _MEASURED):
        began = perf_counter()
        at = torch.tensor([[position]], device=model.device)
        logits = forward(input_ids=token, position_ids=at, **{argument: cache}).logits
        logits[:, -1].argmax(-1).tolist()
        times_s.append(perf_counter() - began)
    return median(times_s[_WARM_UP:])
