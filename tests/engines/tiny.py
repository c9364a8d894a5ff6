"""Tiny random models, one of each kind of cache."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
)

_COMMON: dict[str, Any] = {
    "hidden_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "intermediate_size": 48,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
    "initializer_range": 0.4,
    "eos_token_id": None,
    "bos_token_id": None,
    "pad_token_id": 0,
}


def qwen3(vocab_size: int, seed: int = 0, **options: Any) -> Any:
    """Full attention in every layer."""
    torch.manual_seed(seed)
    config = Qwen3Config(vocab_size=vocab_size, **{**_COMMON, "num_hidden_layers": 2, **options})
    return Qwen3ForCausalLM(config).eval()


def gemma3(vocab_size: int, seed: int = 0) -> Any:
    """Sliding windows of 8 tokens that forget, and one layer of full attention."""
    torch.manual_seed(seed)
    layer_types = ["sliding_attention", "full_attention"]
    config = Gemma3TextConfig(
        vocab_size=vocab_size,
        **{**_COMMON, "num_hidden_layers": 2, "layer_types": layer_types, "sliding_window": 8},
    )
    return Gemma3ForCausalLM(config).eval()


def qwen3_next(vocab_size: int, seed: int = 0) -> Any:
    """Linear attention with a running state, and one layer of full attention."""
    torch.manual_seed(seed)
    config = Qwen3NextConfig(
        vocab_size=vocab_size,
        **{
            **_COMMON,
            "num_hidden_layers": 2,
            "layer_types": ["linear_attention", "full_attention"],
            "linear_num_value_heads": 2,
            "linear_num_key_heads": 2,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "num_experts": 0,
            "mlp_only_layers": [0, 1],
            "decoder_sparse_step": 1,
        },
    )
    return Qwen3NextForCausalLM(config).eval()


def greedy(model: Any, ids: list[int], n: int) -> list[int]:
    """What the model writes, by a full forward for every token: slow, and simple to believe."""
    written: list[int] = []
    with torch.inference_mode():
        for _ in range(n):
            logits = model(torch.tensor([ids + written]), use_cache=False).logits
            written.append(int(logits[0, -1].argmax()))
    return written
