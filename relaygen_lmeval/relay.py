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

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from relaygen_lmeval.config import RelayConfig, parse_config
from relaygen_lmeval.core import policies
from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.policies import Policy
from relaygen_lmeval.core.types import (
    Phase,
    Piece,
    RelayRequest,
    RelayResult,
    Role,
    SamplingParams,
)
from relaygen_lmeval.cuefile import CueFile, cue_file_for
from relaygen_lmeval.demo import demo_path
from relaygen_lmeval.engines.local import LocalEngine
from relaygen_lmeval.engines.local.lane import Lane
from relaygen_lmeval.engines.local.pacer import Pacer
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.pair import Pair, load_pair, model_options
from relaygen_lmeval.runner import OnResult, relay_all

log = logging.getLogger(__name__)

THINK_START, THINK_END = "<think>", "</think>"
THINKING_MAX_GEN_TOKS = 32_768  # the paper's; a model that thinks is not cut at 256
PLAIN_MAX_GEN_TOKS = 256  # the harness's own default
GREEDY = SamplingParams()
_HF_TOP_K = 50  # what transformers' generate samples from where nothing is set

T = TypeVar("T")
Prompt = str | Sequence[Mapping[str, str]]


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
        self.think_start, self.think_end = self._think_marks()
        self._pacers: dict[str, Pacer] = {}
        self._lowered = False  # the warning is given once
        self._engines = {role: self._engine(role) for role in self.policy.roles}

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
        return cls(config, load_pair(config), cue_file)

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
        base = sampling or SamplingParams(repetition_penalty=self.defaults().repetition_penalty)
        requests = [
            self.request(
                i,
                self.template(prompt),
                max_tokens=max_tokens,
                until=tuple(until),
                sampling=replace(base, seed=base.seed + i),
            )
            for i, prompt in enumerate(prompts)
        ]
        return self.run(requests)

    def run(
        self, requests: Sequence[RelayRequest], on_result: OnResult = lambda result: None
    ) -> list[RelayResult]:
        """Relay requests that are already made; `on_result` hears of each as it is finished."""
        read: dict[int, RelayResult] = {}

        def on_raw(raw: RelayResult) -> None:
            result = read[raw.request.seq_id] = self._read(raw)
            on_result(result)

        _run(
            relay_all(
                requests,
                self.policy,
                self._engines,
                n_at_once=self.config.n_rows,
                on_result=on_raw,
            )
        )
        return [read[request.seq_id] for request in requests]

    def template(self, prompt: Prompt) -> str:
        """The prompt as the large model's chat template writes it."""
        if isinstance(prompt, str):
            if not self.pair.large.tokenizer.chat_template:
                return prompt
            prompt = [{"role": "user", "content": prompt}]
        return str(self.pair.large.apply_chat_template([dict(turn) for turn in prompt]))

    def request(
        self,
        seq_id: int,
        prompt: str,
        *,
        small_prompt: str | None = None,
        max_tokens: int | None = None,
        until: tuple[str, ...] = (),
        sampling: SamplingParams = GREEDY,
    ) -> RelayRequest:
        """Make one request: prompts of both models, budgets, and whether it will think.

        Args:
            seq_id: Its identity within the run.
            prompt: As the large model reads it.
            small_prompt: As the small one does, where their tokenizers differ.
            max_tokens: `None`: the default of the run.
            until: Stop strings.
            sampling: How tokens are chosen, with the request's own seed.

        Raises:
            ConfigError: Budgets that leave no room.
        """
        thinks = self._thinks(prompt)
        prompts, n_tokens = self._fit(prompt, small_prompt or prompt, max_tokens, thinks)
        closing = self._closing() if thinks is not False else Piece("")
        n_answer = 0 if thinks is False else self._answer_tokens(n_tokens, len(closing.token_ids))
        return RelayRequest(
            seq_id,
            prompts,
            max_tokens=n_tokens,
            max_answer_tokens=n_answer,
            until=until,
            sampling=sampling,
            thinks=thinks,
            think_start=self.think_start,
            think_end=self.think_end,
            closing=closing,
        )

    def defaults(self) -> SamplingParams:
        """What the large model's generation settings sample with, as stock `hf` would."""
        settings = self.pair.large.model.generation_config
        top_k = getattr(settings, "top_k", None)
        return SamplingParams(
            temperature=0.0,
            top_p=getattr(settings, "top_p", None) or 1.0,
            top_k=_HF_TOP_K if top_k is None else top_k,
            min_p=getattr(settings, "min_p", None) or 0.0,
            repetition_penalty=getattr(settings, "repetition_penalty", None) or 1.0,
        )

    def close(self) -> None:
        """Stop the engines."""
        for engine in self._engines.values():
            engine.close()

    def _engine(self, role: Role) -> LocalEngine:
        model = self.pair[role]
        lane = Lane(
            role,
            model.model,
            model.tokenizer,
            n_rows=self.config.n_rows,
            cues=self.policy.cues,
            shares_ids=self.pair.shares_ids,
            compiled=self.config.compile == "on",
        )
        pacer = self._pacers.setdefault(str(model.device), Pacer())
        return LocalEngine(lane, pacer)

    def _think_marks(self) -> tuple[str, str]:
        given = self.config.think_end_token
        if isinstance(given, int):
            given = str(self.pair.large.tokenizer.decode([given], skip_special_tokens=False))
        return THINK_START, given or THINK_END

    def _thinks(self, prompt: str) -> bool | None:
        """Whether the text after this prompt begins with a reasoning; `None`: it will show."""
        named = self.config.think_end_token is not None
        if not named and self.think_end not in self.pair.large.tokenizer.get_vocab():
            return False
        tail = prompt.rstrip()
        if tail.endswith(self.think_end):
            return False
        return True if named or tail.endswith(self.think_start) else None

    def _fit(
        self, prompt: str, small_prompt: str, max_tokens: int | None, thinks: bool | None
    ) -> tuple[dict[Role, Piece], int]:
        """Both prompts and the budget, so that all fits the models' lengths."""
        longest = min(self.pair[role].max_length for role in self.policy.roles)
        ids = self._encode(Role.LARGE, prompt)
        n_tokens = self._budget(max_tokens or self.config.max_gen_toks, thinks, longest, len(ids))
        prompts = {Role.LARGE: _left(prompt, ids, longest - n_tokens)}
        prompts[Role.SMALL] = prompts[Role.LARGE]
        if not self.pair.shares_ids:
            small_ids = self._encode(Role.SMALL, small_prompt)
            prompts[Role.SMALL] = _left(small_prompt, small_ids, longest - n_tokens)
        return prompts, n_tokens

    def _budget(self, wanted: int | None, thinks: bool | None, longest: int, n_prompt: int) -> int:
        """Tokens to generate; a budget that no prompt fits beside is lowered to what is there."""
        if wanted is not None and wanted < longest:
            return wanted  # as stock `hf`, which then cuts a prompt that is too long
        if wanted is not None and not self._lowered:
            self._lowered = True
            log.warning(
                "max_gen_toks=%d does not fit into max_length=%d: what the prompt leaves is used",
                wanted,
                longest,
            )
        most = wanted or (PLAIN_MAX_GEN_TOKS if thinks is False else THINKING_MAX_GEN_TOKS)
        return min(most, max(longest - n_prompt, longest // 2))

    def _encode(self, role: Role, prompt: str) -> list[int]:
        """As stock `hf` encodes the context of a generation; an empty one gets a first token."""
        model = self.pair[role]
        ids, _ = model.tok_batch_encode([prompt])
        return [int(i) for i in ids[0].tolist()] or [int(model.prefix_token_id)]

    def _closing(self) -> Piece:
        text = f"\n{self.think_end}\n\n"
        ids = self.pair.large.tokenizer.encode(text, add_special_tokens=False)
        return Piece(text, tuple(ids))

    def _answer_tokens(self, n_tokens: int, n_closing: int) -> int:
        wanted = self.config.max_answer_toks or max(1, min(1024, n_tokens // 4))
        if n_tokens - n_closing - wanted < 1:
            raise ConfigError(
                f"max_gen_toks={n_tokens} is too little for a model that thinks: max_answer_toks="
                f"{wanted} and closing the reasoning ({n_closing}) leave nothing for it; raise "
                "max_gen_toks (--gen_kwargs), lower max_answer_toks or set enable_thinking=False"
            )
        return wanted

    def _read(self, result: RelayResult) -> RelayResult:
        """The result with special tokens left out of its texts, as stock `hf` reads them."""
        thought = any(segment.phase is Phase.ANSWER for segment in result.segments)
        if not self.pair.shares_ids:
            return replace(result, answer=result.answer.lstrip() if thought else result.answer)
        ids = [i for segment in result.segments for i in segment.token_ids]
        text = self._decode(ids)
        if not thought:
            return replace(result, text=text, answer=text)
        _, mark, answer = text.rpartition(self.think_end)
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


def make_policy(config: RelayConfig, cue_file: CueFile | None) -> Policy:
    """The policy that the options name."""
    if config.policy == "large":
        return policies.large()
    if config.policy == "small":
        return policies.small()
    assert cue_file is not None
    table = cue_file.table()
    if config.cue_match is not None:
        table = CueTable(table.cues, "substring" if config.cue_match == "substring" else "word")
    return policies.relay(
        table,
        answer_by=Role(config.answer_by),
        min_large_tokens=config.min_large_tokens,
        max_small_tokens=config.max_small_tokens,
    )


def load_cues(config: RelayConfig) -> CueFile | None:
    """The cue file of the run, where the policy has a use for one."""
    if config.policy != "relay":
        return None
    assert config.small is not None
    return cue_file_for(config.cues, config.pretrained, config.small)


def _left(text: str, ids: list[int], room: int) -> Piece:
    """The end of a prompt that is too long, as the harness cuts it."""
    if len(ids) > room:
        log.warning("a prompt of %d tokens is cut to its last %d", len(ids), room)
    return Piece(text, tuple(ids[-room:]))


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, from inside a running event loop (a notebook) too."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
