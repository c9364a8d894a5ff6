"""The Python face: a loaded pair that relays generations.

Examples:
    >>> from relaygen_lmeval import Relay
    >>> relay = Relay.from_pretrained()  # the embedded pair; or two names
    >>> result = relay.generate(["Tom has 12 pens and buys 7 more. How many pens has he?"])[0]
    >>> sum(segment.n_tokens for segment in result.segments) == result.n_tokens
    True
    >>> relay.close()
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from relaygen_lmeval.core.policy import Policy
from relaygen_lmeval.core.types import (
    Phase,
    RelayRequest,
    RelayResult,
    Role,
    SamplingParams,
)
from relaygen_lmeval.cuefile import CueFile
from relaygen_lmeval.demo import demo_path
from relaygen_lmeval.engines.local import LocalEngine
from relaygen_lmeval.memory.models import free_bytes, longest_tokens, sizes_of
from relaygen_lmeval.memory.plan import ModelSize, check_fits
from relaygen_lmeval.models.assembly import make_engines, make_pair
from relaygen_lmeval.models.pair import Pair, model_options
from relaygen_lmeval.options.config import RelayConfig, parse_config
from relaygen_lmeval.options.policy_choice import load_cues, make_policy
from relaygen_lmeval.requests import Prompt, RequestMaker
from relaygen_lmeval.runner import OnResult, relay_all, relay_one, run_here
from relaygen_lmeval.stopping import OnStop

log = logging.getLogger(__name__)


class Relay:
    """A pair of models and the policy by which they share a generation.

    Args:
        config: The options of the run.
        pair: The loaded models.
        cue_file: The cues, where the policy uses them.
    """

    def __init__(self, config: RelayConfig, pair: Pair, cue_file: CueFile | None) -> None:
        self.config = config
        self.pair = pair
        self.cue_file = cue_file
        self.policy = make_policy(config, cue_file)
        self.requests = RequestMaker(config, pair, self.policy.roles)
        self._engines = make_engines(config, pair, self.policy.roles)
        for move in self.policy.kinds():
            self._engines[move.role].admit(move)

    @classmethod
    def from_pretrained(
        cls, large: str | None = None, small: str | None = None, **options: Any
    ) -> Relay:
        """Load a pair; without names, the embedded one.

        Args:
            large: Folder or hub name of the large model.
            small: The same of the small one.
            **options: Any option of `--model_args`.

        Raises:
            ConfigError: An option that is unknown or wrong, before anything is loaded.
        """
        named = {"pretrained": large, "small": small}
        return cls.from_options({**{k: v for k, v in named.items() if v is not None}, **options})

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Relay:
        """Load what the options of `--model_args` say."""
        return cls.from_config(parse_options(options))

    @classmethod
    def from_config(cls, config: RelayConfig) -> Relay:
        """Load what a checked configuration says; the cues first, for they may be refused."""
        cue_file = load_cues(config)
        return cls(config, make_pair(config), cue_file)

    def generate(
        self,
        prompts: Sequence[Prompt],
        *,
        max_tokens: int | None = None,
        until: Sequence[str] = (),
        sampling: SamplingParams | None = None,
    ) -> list[RelayResult]:
        """Relay a generation for every prompt.

        Args:
            prompts: Questions, or conversations of `{"role": .., "content": ..}`; a question
                becomes a user's turn where the tokenizer has a chat template.
            max_tokens: Bound of generated tokens; default as `max_gen_toks`.
            until: Stop strings; a model that thinks is stopped in its answer alone.
            sampling: Default: greedy. Each prompt gets a seed of its own from this one.

        Returns:
            Texts with their segments and times, in the order of the prompts.
        """
        base = sampling or SamplingParams(
            repetition_penalty=self.requests.defaults().repetition_penalty
        )
        requests = [
            self.requests.make(
                i,
                self.requests.template(prompt),
                max_tokens=max_tokens,
                until=tuple(until),
                sampling=replace(base, seed=base.seed + i),
            )
            for i, prompt in enumerate(prompts)
        ]
        return self.run(requests)

    def run(self, requests: Sequence[RelayRequest]) -> list[RelayResult]:
        """Relay requests that are already made; results come in their order."""
        read: dict[int, RelayResult] = {}

        def keep(result: RelayResult) -> None:
            read[result.request.seq_id] = result

        self.run_each(requests, keep)
        return [read[request.seq_id] for request in requests]

    def run_each(
        self,
        requests: Sequence[RelayRequest],
        on_result: OnResult,
        on_stop: OnStop | None = None,
    ) -> None:
        """Relay requests and hand each result on, keeping none of them.

        Args:
            requests: See `RequestMaker`.
            on_result: Hears of each as it is finished.
            on_stop: Hears of SIGINT and SIGTERM, which end the work; see `run_here`.

        Raises:
            ConfigError: So many requests of such a length do not fit into memory.
        """
        self.check_memory(requests)
        run_here(
            relay_all(
                requests,
                self.policy,
                self._engines,
                n_at_once=self.config.n_rows,
                on_result=lambda raw: on_result(self._read(raw)),
            ),
            on_stop,
        )

    def close(self) -> None:
        """Stop the engines."""
        for engine in self._engines.values():
            engine.close()

    def try_one(self, request: RelayRequest, policy: Policy) -> RelayResult:
        """Relay one request by another policy, which asks no other models than this one's."""
        return self._read(run_here(relay_one(request, policy, self._engines)))

    def check_memory(self, requests: Sequence[RelayRequest]) -> None:
        """See that rows fit at their longest; servers keep house themselves.

        Raises:
            ConfigError: They do not.
        """
        if self.config.engine == "local":
            sizes = sizes_of(self.pair, self.policy.roles)
            n_tokens = longest_tokens(requests, self.policy.roles)
            check_fits(sizes, self.config.n_rows, n_tokens, self.free_bytes(sizes))

    def free_bytes(self, sizes: Sequence[ModelSize]) -> dict[str, int]:
        """What the models' devices have for keys and values, their present storage included."""
        free = free_bytes(sizes)
        for size in sizes:
            engine = self._engines[Role(size.role)]
            if isinstance(engine, LocalEngine):
                free[size.device] += engine.kv_bytes
        return free

    def _read(self, result: RelayResult) -> RelayResult:
        """The result with special tokens left out of its texts, as stock `hf` reads them."""
        thought = any(segment.phase is Phase.ANSWER for segment in result.segments)
        if not self.pair.shares_ids:
            return replace(result, answer=result.answer.lstrip() if thought else result.answer)
        ids = [i for segment in result.segments for i in segment.token_ids]
        text = self._decode(ids)
        if not thought:
            return replace(result, text=text, answer=text)
        _, mark, answer = text.rpartition(self.requests.think_end)
        if not mark:
            answer = self._decode(
                [i for s in result.segments if s.phase is Phase.ANSWER for i in s.token_ids]
            )
        return replace(result, text=text, answer=answer.lstrip())

    def _decode(self, ids: list[int]) -> str:
        return str(self.pair.large.tok_decode(ids))


def parse_options(options: Mapping[str, Any]) -> RelayConfig:
    """Check the options of `--model_args` against all that can be set."""
    return parse_config(options, model_options(), demo_path())
