"""Looks at one thing after the other, and says of each that it is well or what to do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from relaygen_lmeval.core.policies import Large, Small
from relaygen_lmeval.core.types import RelayRequest, RelayResult, Role
from relaygen_lmeval.cuefile import CueFile
from relaygen_lmeval.errors import EngineError, RelayGenError
from relaygen_lmeval.journal import check_writable
from relaygen_lmeval.memory.models import sizes_of
from relaygen_lmeval.memory.plan import describe, longest_batch
from relaygen_lmeval.models.assembly import make_pair
from relaygen_lmeval.models.pair import Pair
from relaygen_lmeval.options.config import RelayConfig
from relaygen_lmeval.options.policy_choice import load_cues
from relaygen_lmeval.relay import Relay, parse_options

N_TOKENS = 10
_PROMPT = "Tom has 12 pens and buys 7 more. How many pens has he?"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was seen of one thing.

    Attributes:
        name: Of the thing.
        state: `ok`; `note`: the run would go on, but look at it; `fail`: it would not.
        text: What was found, or what to do.
    """

    name: str
    state: Literal["ok", "note", "fail"]
    text: str


def look(options: Mapping[str, Any]) -> Iterator[Finding]:
    """Try what a run with these options needs, up to what fails and is needed by the rest.

    Args:
        options: As of `--model_args`, with `batch_size`.
    """
    config: RelayConfig | None = yield from _see("options", lambda: _options(options))
    if config is None:
        return
    yield from _see("log folder", lambda: _log_folder(config))
    cues = yield from _see("cues", lambda: _cues(config))
    if cues is None:
        return
    kind = "models" if config.engine == "local" else "servers"
    pair: Pair | None = yield from _see(kind, lambda: _pair(config))
    if pair is None:
        return
    yield _tokenizers(pair)
    relay: Relay | None = yield from _see("policy", lambda: _relay(config, pair, cues))
    if relay is None:
        return
    try:
        request: RelayRequest | None = yield from _see("thinking", lambda: _thinking(relay))
        if request is None:
            return
        yield from _see("memory", lambda: _memory(relay, request))
        for role in sorted(relay.policy.roles):
            yield from _see(f"{role.value} model", partial(_ten_tokens, relay, role, request))
    finally:
        relay.close()


_Seen = tuple[Any, str]  # what was made, and what to say of it


def _see(name: str, find: Callable[[], _Seen]) -> Generator[Finding, None, Any]:
    """One finding, with whatever was warned of meanwhile; gives what was made, or `None`."""
    warned = _Warnings()
    logger = logging.getLogger("relaygen_lmeval")
    logger.addHandler(warned)
    propagates, logger.propagate = logger.propagate, False
    try:
        made, text = find()
    except RelayGenError as error:
        yield Finding(name, "fail", str(error))
        return None
    finally:
        logger.removeHandler(warned)
        logger.propagate = propagates
    yield Finding(name, "note" if warned.texts else "ok", "; ".join([text, *warned.texts]))
    return made


class _Warnings(logging.Handler):
    """Keeps what would have been warned of in a run."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self.texts.append(record.getMessage())


def _options(options: Mapping[str, Any]) -> _Seen:
    config = parse_options(options)
    models = " and ".join(filter(None, (config.pretrained, config.small)))
    return config, (
        f"{models}; policy={config.policy}, engine={config.engine}, {config.n_rows} requests at once"
    )


def _log_folder(config: RelayConfig) -> _Seen:
    if config.log_dir is None:
        return True, "a new one below relaygen_logs/"
    check_writable(Path(config.log_dir).expanduser())
    return True, f"{config.log_dir} can be written"


def _cues(config: RelayConfig) -> _Seen:
    cues = load_cues(config)
    if cues is None:
        return (None,), f"policy={config.policy} uses none"
    rule = config.cue_match or cues.match
    return (cues,), f"{cues.name}: {len(cues.cues)} cues, matched as {rule}"


def _pair(config: RelayConfig) -> _Seen:
    began = perf_counter()
    pair = make_pair(config)
    return pair, f"{_where(config)} in {perf_counter() - began:.1f} s"


def _where(config: RelayConfig) -> str:
    if config.engine == "local":
        return "loaded"
    return f"{config.base_url or 'ours'} and {config.small_base_url or 'ours'} reached"


def _tokenizers(pair: Pair) -> Finding:
    if pair.small is None:
        return Finding("tokenizers", "ok", "one model, one tokenizer")
    if pair.shares_ids:
        return Finding("tokenizers", "ok", "equal: token ids are handed over")
    return Finding("tokenizers", "note", "they differ: text is handed over, not token ids")


def _relay(config: RelayConfig, pair: Pair, cues: tuple[CueFile | None]) -> _Seen:
    relay = Relay(config, pair, cues[0])
    return (
        relay,
        f"{relay.policy.name}, asks {' and '.join(r.value for r in sorted(relay.policy.roles))}",
    )


def _thinking(relay: Relay) -> _Seen:
    prompt = relay.requests.template(_PROMPT)
    request = relay.requests.make(0, prompt)
    template = "chat template" if relay.pair.large.tokenizer.chat_template else "no chat template"
    says = {
        True: "the reasoning is open at once",
        False: "the model does not think",
        None: "the model may think: its first words tell",
    }
    return request, f"{template}; {says[request.thinks]}; max_gen_toks={request.max_tokens}"


def _memory(relay: Relay, request: RelayRequest) -> _Seen:
    if relay.config.engine != "local":
        return True, "the servers keep house themselves"
    sizes = sizes_of(relay.pair, relay.policy.roles)
    n_tokens = request.max_tokens + len(request.prompts[Role.LARGE].token_ids)
    free = relay.free_bytes(sizes)
    fits = longest_batch(sizes, n_tokens, free)
    relay.check_memory([request])
    return True, f"{describe(sizes, n_tokens, free)}: room for {fits:,} rows of {n_tokens:,} tokens"


def _ten_tokens(relay: Relay, role: Role, request: RelayRequest) -> _Seen:
    alone = replace(request, thinks=False, max_tokens=N_TOKENS, max_answer_tokens=0)
    policy = Large() if role is Role.LARGE else Small()
    began = perf_counter()
    result: RelayResult = relay.try_one(alone, policy)
    if not result.n_tokens:
        raise EngineError(
            f"the {role.value} model wrote nothing after '{_PROMPT}': is it a model of texts, and "
            "its chat template the right one?"
        )
    seconds = perf_counter() - began
    return True, f"{result.n_tokens} tokens in {seconds:.2f} s: {result.text!r}"
