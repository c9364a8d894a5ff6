"""What is known of a model without its weights: configuration, generation settings, size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GenerationConfig


class Elsewhere:
    """Stands where the harness's `hf` has the model: all that is known of it without weights."""

    def __init__(self, source: str, config: Any, options: Mapping[str, Any]) -> None:
        self.config = config
        self.device = torch.device("cpu")
        self.dtype = "the server's"
        self._trust = bool(options.get("trust_remote_code", False))
        self.generation_config = _generation_config(source, config, options)

    def num_parameters(self) -> int:
        """Number of weights; 0 where it cannot be told."""
        return count_parameters(self.config, trust_remote_code=self._trust)

    def to(self, device: Any) -> Elsewhere:
        """Stays where it is."""
        return self


def count_parameters(config: Any, *, trust_remote_code: bool = False) -> int:
    """Number of weights, from the architecture alone; 0 where it cannot be built."""
    make: Any = AutoModelForCausalLM.from_config
    try:
        with torch.device("meta"):  # shapes without numbers
            model = make(config, trust_remote_code=trust_remote_code)
    except (ValueError, TypeError, ImportError, RuntimeError):
        return 0
    return int(model.num_parameters())


def _generation_config(source: str, config: Any, options: Mapping[str, Any]) -> Any:
    try:
        return GenerationConfig.from_pretrained(source, revision=options.get("revision") or "main")
    except (OSError, ValueError):
        return GenerationConfig.from_model_config(config)
