"""How fast the steps of a pair are, and how fast margins are against writing the same text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from time import perf_counter
from typing import Any

import torch

from relaygen_lmeval.core.types import Role, SamplingParams
from relaygen_lmeval.engines.local.choice import make_forward
from relaygen_lmeval.engines.local.forward import Feed, Track
from relaygen_lmeval.engines.local.margins import margins
from relaygen_lmeval.models.pair import Pair
from relaygen_lmeval.options.config import RelayConfig
from relaygen_lmeval.relay import Relay

_WARM_UP, _MEASURED = 10, 50


def step_s(model: Any) -> float:
    """Time one decode step of a loaded or a served model at batch 1, seconds."""
    if hasattr(model, "token_s"):  # a ServedModel, whose module needs the extra `server`
        return float(model.token_s())
    return plain_step_s(model.model)


@torch.inference_mode()
def plain_step_s(model: Any) -> float:
    """Time one decode step of a transformers model at batch 1; the median, in seconds."""
    forward, track = make_forward(model, 1), Track([])
    times_s = []
    for _ in range(_WARM_UP + _MEASURED):
        began = perf_counter()
        forward.feed([Feed(track, [0])])[:, -1].argmax(-1).tolist()
        times_s.append(perf_counter() - began)
    return median(times_s[_WARM_UP:])


def scoring_speed(
    config: RelayConfig,
    pair: Pair,
    prompts: Sequence[str],
    *,
    batch: int = 8,
    max_gen_toks: int = 400,
    repeats: int = 3,
) -> dict[str, Any]:
    """Have the large model write traces, then score the very same tokens with either model.

    Args:
        config: Options of the pair.
        pair: The loaded models.
        prompts: As the large model reads them, templates applied.
        batch: Rows that are written at once.
        max_gen_toks: Bound of each trace.
        repeats: Rounds, after one to warm up; medians are given.

    Returns:
        `n_tokens` of the traces; `generate`, `small`, `large`: tokens per second of writing them
        and of scoring them with each model; `ratio_small`, `ratio_large`: scoring over writing.
        The small model is left out where its tokenizer is another.
    """
    relay = Relay(replace(config, policy="large", batch_size=batch), pair, None)
    sampling = SamplingParams(temperature=0.6, top_p=0.95, top_k=20)
    requests = [
        relay.requests.make(i, p, max_tokens=max_gen_toks, sampling=replace(sampling, seed=i))
        for i, p in enumerate(prompts)
    ]
    times_s: dict[str, list[float]] = {}
    for _ in range(1 + repeats):
        began = perf_counter()
        results = relay.run(requests)
        times_s.setdefault("generate", []).append(perf_counter() - began)
        contexts = [list(result.request.prompts[Role.LARGE].token_ids) for result in results]
        rows = [
            [*context, *(i for segment in result.segments for i in segment.token_ids)]
            for context, result in zip(contexts, results, strict=True)
        ]
        for role in Role if pair.shares_ids else (Role.LARGE,):
            began = perf_counter()
            margins(pair[role].model, rows, list(map(len, contexts)))
            times_s.setdefault(role.value, []).append(perf_counter() - began)
    relay.close()
    n_tokens = sum(result.n_tokens for result in results)
    speeds = {name: n_tokens / median(values[1:]) for name, values in times_s.items()}
    ratios = {f"ratio_{k}": v / speeds["generate"] for k, v in speeds.items() if k != "generate"}
    return {"n_tokens": n_tokens, "batch": batch, **speeds, **ratios}
