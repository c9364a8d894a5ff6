"""Which way a model is fed: the kind of cache it asks for decides."""

from __future__ import annotations

import logging
from typing import Any

from transformers.cache_utils import DynamicCache, DynamicLayer

from relaygen_lmeval.engines.local.forward import Forward, cache_argument
from relaygen_lmeval.engines.local.ragged import RaggedForward
from relaygen_lmeval.engines.local.rowwise import RowwiseForward
from relaygen_lmeval.errors import EngineError

log = logging.getLogger(__name__)


def make_forward(
    model: Any, n_rows: int, *, compile_steps: bool = False, verifies: bool = False
) -> Forward:
    """Choose by the kind of cache the model asks for.

    Args:
        model: A causal transformers model.
        n_rows: How many requests may be held at once.
        compile_steps: Whether short reads are compiled, here and now, where they can be.
        verifies: Whether drafts are going to be verified.

    Raises:
        EngineError: A model that takes no cache.
    """
    argument = cache_argument(model)
    if argument is None:
        raise EngineError(
            f"{type(model).__name__} takes no cache in its forward, so it cannot take over a "
            "text without reading all of it for every token; use a model with a cache"
        )
    layers = _layers(model)
    if is_ragged(model):
        if model.config._attn_implementation not in ("sdpa", "eager"):
            model.set_attn_implementation("sdpa")  # ragged rows bring a mask of their own
        return RaggedForward(
            model, argument, len(layers), n_rows, compile_steps=compile_steps, verifies=verifies
        )
    log.warning(
        "%s keeps a cache that cannot be shared between ragged rows (%s): one row a forward",
        type(model).__name__,
        ", ".join(sorted({type(layer).__name__ for layer in layers})) or "its own",
    )
    return RowwiseForward(model, argument)


def is_ragged(model: Any) -> bool:
    """Whether every layer keeps all keys and values, so that rows of any length share a forward."""
    layers = _layers(model)
    return bool(layers) and all(type(layer) is DynamicLayer for layer in layers)


def _layers(model: Any) -> list[Any]:
    return list(DynamicCache(config=model.config).layers)
