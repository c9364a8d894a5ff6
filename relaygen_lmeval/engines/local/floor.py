"""The floor of a step: the model's bare compiled forward, and nothing else."""

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
_WARM_UP, _MEASURED = 20, 40


class BareForward:
    """One compiled forward of a fixed shape, the choice of the next tokens included.

    Args:
        model: A causal transformers model.
        n_rows: Rows that are read at once.
        n_tokens: Tokens of a row: 1 is a decode step, more a catch-up or a verification.
    """

    def __init__(self, model: Any, n_rows: int = 1, n_tokens: int = 1) -> None:
        self._cache = StaticCache(config=model.config, max_cache_len=_LENGTH + n_tokens)
        self._argument = cache_argument(model) or "past_key_values"
        self._ids = torch.zeros(n_rows, n_tokens, dtype=torch.long, device=model.device)
        self._forward: Any = torch.compile(model, dynamic=False)
        try:
            # Every shape is a program; past torch's own limit it would not be compiled.
            with torch._dynamo.config.patch(recompile_limit=256):
                self.time_s(_WARM_UP)
        except Exception as error:  # noqa: BLE001  no compiler, or a model it cannot take
            log.warning("the forward cannot be compiled (%s): the plain one is the floor", error)
            self._forward = model

    @torch.inference_mode()
    def time_s(self, n: int = _MEASURED) -> float:
        """The median of `n` forwards, seconds.

        The cache is written over and over: what a step costs depends on its width alone.
        """
        n_tokens = self._ids.shape[1]
        times_s = []
        for position in range(n):
            if position * n_tokens % _LENGTH < n_tokens:
                self._cache.reset()  # type: ignore[no-untyped-call]
            began = perf_counter()
            at = torch.arange(n_tokens, device=self._ids.device) + position * n_tokens % _LENGTH
            logits = self._forward(
                input_ids=self._ids,
                position_ids=at.expand(self._ids.shape),
                **{self._argument: self._cache},
            ).logits
            logits[:, -1].argmax(-1).tolist()
            times_s.append(perf_counter() - began)
        return median(times_s)
