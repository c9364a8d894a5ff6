"""What is timed: stock `hf`, transformers' assisted generation, and our policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

import torch
from lm_eval.api.instance import Instance

from relaygen_lmeval.core.types import RelayResult
from relaygen_lmeval.models.pair import Pair
from relaygen_lmeval.options.config import RelayConfig
from relaygen_lmeval.options.policy_choice import load_cues
from relaygen_lmeval.relay import Relay

HF = "hf"
ASSISTED = "hf assisted"
# Ours, by name: the options that make them.
OURS: Mapping[str, Mapping[str, str]] = {
    "small": {"policy": "small"},
    "large": {"policy": "large"},
    "large + lookup": {"policy": "large", "speculative": "lookup"},
    "large + small drafts": {"policy": "large", "speculative": "small"},
    "relay": {"policy": "relay"},
    "relay + small drafts": {"policy": "relay", "speculative": "small"},
}


@dataclass(frozen=True, slots=True)
class Round:
    """One contestant's way through all problems.

    Attributes:
        wall_s: What it took, seconds.
        n_tokens: What it wrote.
        texts: The texts, in the order of the problems.
        results: Of ours alone.
        floor_s: What the bare forwards would have taken then, seconds.
    """

    wall_s: float
    n_tokens: int
    texts: list[str]
    results: list[RelayResult]
    floor_s: float | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """A loaded pair on the same prompts.

    Attributes:
        config: Options of the pair.
        pair: The models.
        prompts: As the large model's chat template writes them.
        max_gen_toks: Bound of generated tokens.
    """

    config: RelayConfig
    pair: Pair
    prompts: Sequence[str]
    max_gen_toks: int

    def contestants(self, size: int) -> tuple[dict[str, Callable[[], Round]], list[Relay]]:
        """Everyone at a batch size, and the relays among them, to be closed in the end."""
        relays = {name: self._relay(size, options) for name, options in self._ours().items()}
        runs: dict[str, Callable[[], Round]] = {HF: partial(self._run_hf, size)}
        if size == 1 and self.pair.small is not None and self.pair.shares_ids:
            runs[ASSISTED] = self._run_assisted
        runs |= {name: partial(self._run, relay) for name, relay in relays.items()}
        return runs, list(relays.values())

    def _ours(self) -> dict[str, Mapping[str, str]]:
        """Two tokenizers cannot draft for each other."""
        return {
            name: options
            for name, options in OURS.items()
            if self.pair.shares_ids or options.get("speculative") != "small"
        }

    def _relay(self, size: int, options: Mapping[str, str]) -> Relay:
        config = replace(self.config, batch_size=size, **options)  # type: ignore[arg-type]
        return Relay(config, self.pair, load_cues(config))

    def _run(self, relay: Relay) -> Round:
        began = now()
        requests = [
            relay.requests.make(i, prompt, max_tokens=self.max_gen_toks)
            for i, prompt in enumerate(self.prompts)
        ]
        results = relay.run(requests)
        wall_s = now() - began
        n_tokens = sum(result.n_tokens for result in results)
        return Round(wall_s, n_tokens, [result.text for result in results], results)

    def _run_hf(self, size: int) -> Round:
        large = self.pair.large
        large.batch_size_per_gpu = size
        kwargs = {"do_sample": False, "max_gen_toks": self.max_gen_toks, "until": []}
        asked = [Instance("generate_until", {}, (p, dict(kwargs)), 0) for p in self.prompts]
        began = now()
        texts = large.generate_until(asked, disable_tqdm=True)
        wall_s = now() - began
        return Round(wall_s, sum(len(large.tok_encode(text)) for text in texts), texts, [])

    def _run_assisted(self) -> Round:
        """One prompt at a time, which is all that it takes."""
        large, small = self.pair.large, self.pair.small
        assert small is not None
        encoded = [large.tok_batch_encode([prompt]) for prompt in self.prompts]
        texts, n_tokens, began = [], 0, now()
        for ids, mask in encoded:
            with torch.inference_mode():
                out = large.model.generate(
                    input_ids=ids.to(large.device),
                    attention_mask=mask.to(large.device),
                    assistant_model=small.model,
                    do_sample=False,
                    max_new_tokens=self.max_gen_toks,
                    pad_token_id=large.tokenizer.pad_token_id,
                )
            written = out[0, ids.shape[1] :].tolist()
            n_tokens += len(written)
            texts.append(str(large.tok_decode(written)))
        return Round(now() - began, n_tokens, texts, [])


def now() -> float:
    """The clock, once the device has done what it was given; seconds."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return perf_counter()
