"""Takes the harness's `--seed` for the seed of a model that draws its own numbers."""

from __future__ import annotations

from typing import Any

import torch
from lm_eval.api.model import LM
from lm_eval.utils import simple_parse_args_string


class SeededLM(LM):
    """A model whose option `seed` is `--seed` where it is not given.

    Just before the harness makes a model it seeds torch, from whose state `hf` samples; so the
    same number seeds both.
    """

    @classmethod
    def create_from_arg_obj(
        cls, arg_dict: dict[str, Any], additional_config: dict[str, Any] | None = None
    ) -> Any:
        """Make the model of a dictionary of options."""
        return super().create_from_arg_obj(
            {"seed": torch.initial_seed(), **arg_dict}, additional_config
        )

    @classmethod
    def create_from_arg_string(
        cls, arg_string: str, additional_config: dict[str, Any] | None = None
    ) -> Any:
        """Make the model of `name=value,...`."""
        return cls.create_from_arg_obj(simple_parse_args_string(arg_string), additional_config)
