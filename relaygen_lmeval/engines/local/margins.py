"""Teacher-forced margins: how sure a model is of each token of a text that is already written."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from math import isnan
from typing import Any

import torch
from transformers.cache_utils import DynamicCache

from relaygen_lmeval.engines.local.forward import MAX_FEED, cache_argument
from relaygen_lmeval.errors import EngineError

MAX_LOGITS = 2**24  # logits of one forward, rows times tokens times words: 64 MiB as float32
MAX_CACHED = 2**16  # tokens, padding included, whose keys and values are held at once


@torch.inference_mode()
def margins(
    model: Any,
    rows: Sequence[Sequence[int]],
    n_context: Sequence[int],
    *,
    max_logits: int = MAX_LOGITS,
) -> list[list[float]]:
    """Measure `p(1) - p(2)` of the next-token distribution before every generated token.

    Rows of like length share a forward, padded on the right: no token sees what comes after it,
    so the padding needs no mask. A forward reads a chunk of the sequence on the model's own cache,
    so the memory it needs is bound by the chunk and not by length times vocabulary.

    Args:
        model: A causal transformers model.
        rows: Token ids, prompt and generated text.
        n_context: How many of them are the prompt, at least 1.
        max_logits: Bound of rows times chunk times vocabulary.

    Returns:
        For every row the margins of its generated tokens, in [0, 1].

    Raises:
        EngineError: A row without a prompt, or logits that are not finite.
    """
    if any(n < 1 for n in n_context):
        raise EngineError("a text without any prompt token has no margin for its first token")
    found: list[list[float]] = [[] for _ in rows]
    for batch in _batches([len(row) for row in rows], _most_tokens(model, max_logits)):
        read = _read(model, [rows[i] for i in batch], min(n_context[i] for i in batch), max_logits)
        for i, values in zip(batch, read, strict=True):
            found[i] = values[n_context[i] - 1 : len(rows[i]) - 1].tolist()
            if any(map(isnan, found[i])):
                raise EngineError(
                    f"text {i}: the logits are not finite; load the model with dtype=float32"
                )
    return found


def _most_tokens(model: Any, max_logits: int) -> int:
    """Tokens of one forward: as many as their logits and activations may take."""
    return max(1, min(MAX_FEED, max_logits // int(model.config.get_text_config().vocab_size)))


def _batches(lengths: Sequence[int], most_tokens: int) -> Iterator[list[int]]:
    """Rows to read together, longest first: of like length, and few enough for the cache."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        longest = lengths[batch[0]] if batch else 0
        n = len(batch) + 1
        if batch and (n * longest > MAX_CACHED or n > most_tokens or 2 * lengths[i] < longest):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _read(
    model: Any, rows: Sequence[Sequence[int]], n_context: int, max_logits: int
) -> torch.Tensor:
    """Margins after every token, `[rows, longest - 1]`; 0 within the first `n_context - 1`."""
    longest = max(map(len, rows)) - 1  # nothing follows a row's last token
    ids = torch.tensor([[*row, *[0] * (longest + 1 - len(row))] for row in rows])[:, :longest]
    argument = cache_argument(model) or "past_key_values"
    cache = DynamicCache(config=model.config)
    keeps = "logits_to_keep" in inspect.signature(model.forward).parameters
    step = max(1, _most_tokens(model, max_logits) // len(rows))
    found = torch.zeros(len(rows), longest)
    for start in range(0, longest, step):
        part = ids[:, start : start + step].to(model.device)
        n_wanted = min(part.shape[1], start + part.shape[1] - (n_context - 1))
        options = {"logits_to_keep": max(1, n_wanted)} if keeps else {}
        output = model(input_ids=part, use_cache=True, **{argument: cache}, **options)
        if n_wanted > 0:
            end = start + part.shape[1]
            found[:, end - n_wanted : end] = margin_of(output.logits[:, -n_wanted:]).cpu()
    return found


def margin_of(logits: torch.Tensor) -> torch.Tensor:
    """Margins, float32, of raw logits `[..., V]`: probabilities, not logarithms."""
    logits = logits.float()
    best = logits.topk(2, -1).values
    probabilities = (best - logits.logsumexp(-1, keepdim=True)).exp()
    return probabilities[..., 0] - probabilities[..., 1]
