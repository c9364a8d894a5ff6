"""Reads the sizes of loaded models, and what their devices have left."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import psutil
import torch

from relaygen_lmeval.core.types import RelayRequest, Role
from relaygen_lmeval.engines.local.cache import bytes_per_token
from relaygen_lmeval.engines.local.choice import is_ragged
from relaygen_lmeval.memory.plan import ModelSize
from relaygen_lmeval.models.pair import Pair


def sizes_of(pair: Pair, roles: Collection[Role]) -> list[ModelSize]:
    """What each model takes; keys and values of a cache that forgets count as nothing."""
    return [_size(role, pair[role].model) for role in Role if role in roles]


def free_bytes(sizes: Sequence[ModelSize]) -> dict[str, int]:
    """What the devices of these models have left."""
    return {size.device: _free(torch.device(size.device)) for size in sizes}


def longest_tokens(requests: Sequence[RelayRequest], roles: Collection[Role]) -> int:
    """Prompt and generation of the longest request."""
    return max(
        (r.max_tokens + max(len(r.prompts[role].token_ids) for role in roles) for r in requests),
        default=0,
    )


def _size(role: Role, model: Any) -> ModelSize:
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    a_token = bytes_per_token(model.config, model.dtype) if is_ragged(model) else 0
    return ModelSize(role.value, str(model.device), weights, a_token)


def _free(device: torch.device) -> int:
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0] + cached)
    return int(psutil.virtual_memory().available)
