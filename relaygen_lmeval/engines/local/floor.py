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


def bare_forward_s(model: Any, n_rows: int = 1, n_tokens: int = 1) -> float:
    """Time one compiled forward, the choice of the next tokens included.

    Args:
        model: A causal transformers model.
        n_rows: Rows that are read at once.
        n_tokens: Tokens of a row: 1 is a decode step, more a catch-up or a verification.

    Returns:
        The median in seconds; of the plain forward where nothing can be compiled here.
    """
    try:
        # Every shape is a program; past torch's own limit it would not be compiled.
        with torch._dynamo.config.patch(recompile_limit=64):
            return _time(model, torch.compile(model, dynamic=False), n_rows, n_tokens)
    except Exception as error:  # noqa: BLE001  no compiler, or a model it cannot take
        log.warning("the forward cannot be compiled here (%s): the plain one is the floor", error)
        return _time(model, model, n_rows, n_tokens)


@torch.inference_mode()
def _time(model: Any, forward: Any, n_rows: int, n_tokens: int) -> float:
    """The cache is written over and over: what a step costs depends on its width alone."""
    cache = StaticCache(config=model.config, max_cache_len=_LENGTH + n_tokens)
    argument = cache_argument(model) or "past_key_values"
    tokens = torch.zeros(n_rows, n_tokens, dtype=torch.long, device=model.device)
    times_s = []
    for position in range(_WARM_UP + _MEASURED):
        if position * n_tokens % _LENGTH < n_tokens:
            cache.reset()  # type: ignore[no-untyped-call]
        began = perf_counter()
        at = torch.arange(n_tokens, device=model.device) + position * n_tokens % _LENGTH
        positions = at.expand(n_rows, n_tokens)
        logits = forward(input_ids=tokens, position_ids=positions, **{argument: cache}).logits
        logits[:, -1].argmax(-1).tolist()
        times_s.append(perf_counter() - began)
    return median(times_s[_WARM_UP:])
