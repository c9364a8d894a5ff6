"""Loads the two models, through the harness's own loader, and finds out how they hand over."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from lm_eval.models.huggingface import HFLM
from safetensors import SafetensorError
from transformers import AutoConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from relaygen_lmeval.core.types import Role
from relaygen_lmeval.errors import ConfigError, EngineError
from relaygen_lmeval.options.config import RelayConfig

log = logging.getLogger(__name__)

# What `from_pretrained` and the quantization settings take beyond HFLM's own parameters.
_LOADER_OPTIONS = frozenset(
    [
        "attn_implementation",
        "bnb_4bit_compute_dtype",
        "bnb_4bit_quant_storage",
        "bnb_4bit_quant_type",
        "bnb_4bit_use_double_quant",
        "cache_dir",
        "device_map",
        "experts_implementation",
        "force_download",
        "ignore_mismatched_sizes",
        "llm_int8_enable_fp32_cpu_offload",
        "llm_int8_has_fp16_weight",
        "llm_int8_skip_modules",
        "llm_int8_threshold",
        "load_in_4bit",
        "load_in_8bit",
        "local_files_only",
        "low_cpu_mem_usage",
        "max_memory",
        "offload_buffers",
        "offload_state_dict",
        "quantization_config",
        "resume_download",
        "token",
        "torch_dtype",
        "use_kernels",
        "use_safetensors",
        "variant",
        "weights_only",
    ]
)
# What a wrong option, a file that is cut short or a missing package comes to in the loaders.
_UNLOADABLE = (
    *(OSError, ValueError, TypeError, RuntimeError, AssertionError),
    *(AttributeError, LookupError, ImportError, SafetensorError),
)
_NOT_OPTIONS = frozenset({"self", "pretrained", "batch_size", "max_batch_size", "kwargs"})

# Texts whose ids tell two tokenizers apart: blanks, digits, scripts, half characters, marks.
_PROBES = (
    "So, 12 + 34.5 = 46.5\n\nTherefore\tthe  answer is \\boxed{46.5}.",
    "«Hélas» 今日は。 한국어 🙂👩\u200d🔬 <think>\nHmm\n</think>",
)


def model_options() -> frozenset[str]:
    """Every option that loads one model."""
    names = frozenset(inspect.signature(HFLM.__init__).parameters)
    return (names | _LOADER_OPTIONS) - _NOT_OPTIONS - {"think_end_token"}


@dataclass(frozen=True)
class Pair:
    """The loaded models.

    Attributes:
        large: As the harness's `hf` model; it also answers log-likelihood requests.
        small: The partner; `None` with `policy=large` and no small model.
        shares_ids: Whether a token id means the same to both, so that ids are handed over.
    """

    large: HFLM
    small: HFLM | None
    shares_ids: bool

    def __getitem__(self, role: Role) -> HFLM:
        """The model of a role."""
        if role is Role.LARGE:
            return self.large
        assert self.small is not None
        return self.small


def load_pair(config: RelayConfig) -> Pair:
    """Load both models; what can be refused is refused before any weights are read.

    Raises:
        ConfigError: A model that is not there or does not generate text left to right.
        EngineError: Weights that could not be loaded.
    """
    wanted = [(config.pretrained, config.large_options)]
    if config.small is not None:
        wanted.append((config.small, config.small_options))
    for name, options in wanted:
        _check_generative(name, options)
    models = [_load(name, options, config) for name, options in wanted]
    return join(models[0], models[1] if len(models) > 1 else None)


def join(large: HFLM, small: HFLM | None) -> Pair:
    """A pair of loaded models; says how they hand over."""
    shares_ids = small is None or same_ids(large.tokenizer, small.tokenizer)
    _note(large, small, shares_ids)
    return Pair(large, small, shares_ids)


def same_ids(a: Any, b: Any) -> bool:
    """Whether two tokenizers read the same text as the same ids and name every id alike."""
    if a.get_vocab() != b.get_vocab():
        return False
    return all(
        a.encode(text, add_special_tokens=False) == b.encode(text, add_special_tokens=False)
        for text in _PROBES
    )


def n_parameters(model: HFLM) -> int:
    """Number of weights."""
    return int(model.model.num_parameters())


def _check_generative(name: str, options: Mapping[str, Any]) -> None:
    try:
        config = AutoConfig.from_pretrained(
            name,
            revision=str(options.get("revision") or "main"),
            trust_remote_code=bool(options.get("trust_remote_code", False)),
            **{k: options[k] for k in ("gguf_file", "subfolder") if options.get(k)},
        )
    except (OSError, ValueError) as error:
        if "trust_remote_code" in str(error):
            raise ConfigError(
                f"model '{name}' brings code of its own, which would run here: read it, and if you "
                "trust it set trust_remote_code=True (it goes to both models)"
            ) from error
        first = str(error).strip().splitlines()[0]
        raise ConfigError(f"model '{name}' has no readable configuration: {first}") from error
    if config.is_encoder_decoder:
        raise ConfigError(
            f"model '{name}' ({config.model_type}) is an encoder-decoder: a text cannot be handed "
            "over inside it; take a decoder-only model"
        )
    _check_architecture(name, config)


def _check_architecture(name: str, config: Any) -> None:
    causal = set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())
    architectures = config.architectures or []
    remote = getattr(config, "auto_map", None)
    generates = any(a in causal or a.endswith("ForConditionalGeneration") for a in architectures)
    if architectures and not generates and not remote:
        raise ConfigError(
            f"model '{name}' ({', '.join(architectures)}) does not generate text: take a model "
            "with a causal language-model head"
        )


def _load(name: str, options: Mapping[str, Any], config: RelayConfig) -> HFLM:
    merged = dict(options)
    if str(merged.get("device", "cuda")).startswith("cuda") and not torch.cuda.is_available():
        merged["device"] = "cpu"  # what the harness's own default comes to without CUDA
    on_cpu = str(merged.get("device", "")).startswith("cpu")
    if on_cpu and not {"dtype", "torch_dtype"} & merged.keys():
        # bfloat16 products fall back to slow code on most CPUs: 5 to 50 times slower.
        log.info("%s: no dtype given, float32 is taken on the CPU", name)
        merged["dtype"] = "float32"
    try:
        model = HFLM(pretrained=name, batch_size=config.n_rows, **merged)
    except _UNLOADABLE as error:
        raise EngineError(f"model '{name}' could not be loaded: {error}") from error
    model.model.eval()
    return model


def _note(large: HFLM, small: HFLM | None, shares_ids: bool) -> None:
    if small is None:
        return
    n_large, n_small = n_parameters(large), n_parameters(small)
    if n_small > n_large:
        log.warning(
            "small=%s has more parameters than pretrained=%s (%s against %s): are they swapped?",
            small.pretrained,
            large.pretrained,
            f"{n_small:,}",
            f"{n_large:,}",
        )
    if shares_ids:
        log.info("the tokenizers agree: token ids are handed over")
    else:
        log.warning(
            "the tokenizers differ (%d and %d entries): text is handed over, not token ids",
            len(large.tokenizer),
            len(small.tokenizer),
        )
