"""A prompt becomes a request: both models' ids, budgets that fit, and whether it will think."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

from relaygen_lmeval.core.types import Piece, RelayRequest, Role, SamplingParams
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.models.pair import Pair
from relaygen_lmeval.options.config import RelayConfig

log = logging.getLogger(__name__)

THINK_START, THINK_END = "<think>", "</think>"
THINKING_MAX_GEN_TOKS = 32_768  # the paper's; a model that thinks is not cut at 256
PLAIN_MAX_GEN_TOKS = 256  # the harness's own default
GREEDY = SamplingParams()
_HF_TOP_K = 50  # what transformers' generate samples from where nothing is set

Prompt = str | Sequence[Mapping[str, str]]


class RequestMaker:
    """Makes the requests of one pair.

    Args:
        config: The options of the run.
        pair: The models, whose tokenizers, templates and lengths decide.
        roles: The models that will be asked.
    """

    def __init__(self, config: RelayConfig, pair: Pair, roles: Collection[Role]) -> None:
        self.think_start, self.think_end = THINK_START, _think_end(config, pair)
        self._config = config
        self._pair = pair
        # Asked once: a vocabulary of 150,000 takes tens of milliseconds to list.
        self._can_think = config.think_end_token is not None or (
            self.think_end in pair.large.tokenizer.get_vocab()
        )
        self._longest = min(int(pair[role].max_length) for role in roles)
        self._lowered = False  # the warning is given once

    def make(
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

    def template(self, prompt: Prompt) -> str:
        """The prompt as the large model's chat template writes it."""
        if isinstance(prompt, str):
            if not self._pair.large.tokenizer.chat_template:
                return prompt
            prompt = [{"role": "user", "content": prompt}]
        return str(self._pair.large.apply_chat_template([dict(turn) for turn in prompt]))

    def defaults(self) -> SamplingParams:
        """What the large model's generation settings sample with, as stock `hf` would."""
        settings = self._pair.large.model.generation_config
        top_k = getattr(settings, "top_k", None)
        return SamplingParams(
            temperature=0.0,
            top_p=getattr(settings, "top_p", None) or 1.0,
            top_k=_HF_TOP_K if top_k is None else top_k,
            min_p=getattr(settings, "min_p", None) or 0.0,
            repetition_penalty=getattr(settings, "repetition_penalty", None) or 1.0,
        )

    def _thinks(self, prompt: str) -> bool | None:
        """Whether the text after this prompt begins with a reasoning; `None`: it will show."""
        named = self._config.think_end_token is not None
        if not self._can_think:
            return False
        tail = prompt.rstrip()
        if tail.endswith(self.think_end):
            return False
        return True if named or tail.endswith(self.think_start) else None

    def _fit(
        self, prompt: str, small_prompt: str, max_tokens: int | None, thinks: bool | None
    ) -> tuple[dict[Role, Piece], int]:
        """Both prompts and the budget, so that all fits the models' lengths."""
        ids = self._encode(Role.LARGE, prompt)
        n_tokens = self._budget(max_tokens or self._config.max_gen_toks, thinks, len(ids))
        prompts = {Role.LARGE: _left(prompt, ids, self._longest - n_tokens)}
        prompts[Role.SMALL] = prompts[Role.LARGE]
        if not self._pair.shares_ids:
            small_ids = self._encode(Role.SMALL, small_prompt)
            prompts[Role.SMALL] = _left(small_prompt, small_ids, self._longest - n_tokens)
        return prompts, n_tokens

    def _budget(self, wanted: int | None, thinks: bool | None, n_prompt: int) -> int:
        """Tokens to generate; a budget that no prompt fits beside is lowered to what is there."""
        longest = self._longest
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
        model = self._pair[role]
        ids, _ = model.tok_batch_encode([prompt])
        return [int(i) for i in ids[0].tolist()] or [int(model.prefix_token_id)]

    def _closing(self) -> Piece:
        text = f"\n{self.think_end}\n\n"
        ids = self._pair.large.tokenizer.encode(text, add_special_tokens=False)
        return Piece(text, tuple(ids))

    def _answer_tokens(self, n_tokens: int, n_closing: int) -> int:
        wanted = self._config.max_answer_toks or max(1, min(1024, n_tokens // 4))
        if n_tokens - n_closing - wanted < 1:
            raise ConfigError(
                f"max_gen_toks={n_tokens} is too little for a model that thinks: max_answer_toks="
                f"{wanted} and closing the reasoning ({n_closing}) leave nothing for it; raise "
                "max_gen_toks (--gen_kwargs), lower max_answer_toks or set enable_thinking=False"
            )
        return wanted


def _think_end(config: RelayConfig, pair: Pair) -> str:
    given = config.think_end_token
    if isinstance(given, int):
        given = str(pair.large.tokenizer.decode([given], skip_special_tokens=False))
    return given or THINK_END


def _left(text: str, ids: list[int], room: int) -> Piece:
    """The end of a prompt that is too long, as the harness cuts it."""
    if len(ids) > room:
        log.warning("a prompt of %d tokens is cut to its last %d", len(ids), room)
    return Piece(text, tuple(ids[-room:]))
