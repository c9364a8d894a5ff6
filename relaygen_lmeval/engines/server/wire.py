"""The dialects of OpenAI's completions: how a server names things, and how its replies read.

Pure: values in, values out; the one table of servers is `FLAVOURS`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from relaygen_lmeval.core.types import SamplingParams
from relaygen_lmeval.engines.server.client import Unreadable

Ended = Literal["eos", "stop", "length"]
_SEEDS = 2**31 - 1  # llama.cpp's are 32 bits, vLLM's and SGLang's signed


@dataclass(frozen=True, slots=True)
class Flavour:
    """One kind of server.

    Attributes:
        name: For the log.
        with_ids: Fields that ask for the token ids of what was generated.
        with_stop_text: Fields that ask to leave a stop string in the text.
        plain_text: Fields that show special tokens and add none to a text prompt.
        names: Its name of each sampling setting beyond `temperature`, `top_p` and `seed`.
        no_top_k: The value that switches `top_k` off.
        ids_in_stream: Whether a stream's events hold every id; llama.cpp's leave out those of
            a character that is not whole yet.
    """

    name: str
    with_ids: Mapping[str, Any] = field(default_factory=dict)
    with_stop_text: Mapping[str, Any] = field(default_factory=dict)
    plain_text: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    no_top_k: int = 0
    ids_in_stream: bool = True


_USUAL = {"top_k": "top_k", "min_p": "min_p", "repetition_penalty": "repetition_penalty"}
VLLM = Flavour(
    "vLLM",
    with_ids={"return_token_ids": True},
    with_stop_text={"include_stop_str_in_output": True},
    plain_text={"skip_special_tokens": False, "add_special_tokens": False},
    names=_USUAL,
)
LLAMA_CPP = Flavour(
    "llama.cpp",
    with_ids={"return_tokens": True, "verbose": True},
    names={**_USUAL, "repetition_penalty": "repeat_penalty"},
    ids_in_stream=False,
)
SGLANG = Flavour(
    "SGLang",
    with_stop_text={"no_stop_trim": True},
    plain_text={"skip_special_tokens": False},
    names=_USUAL,
    no_top_k=-1,
)
PLAIN = Flavour("OpenAI completions")
# By what `/v1/models` says owns the model; any other is plain.
FLAVOURS = {"vllm": VLLM, "llamacpp": LLAMA_CPP, "sglang": SGLANG}


@dataclass(frozen=True, slots=True)
class Reply:
    """What a reply, or one event of a stream, says.

    Attributes:
        text: New text; a stop string may be cut off it.
        ids: New token ids, `None` where the server gives none.
        ended: Why the generation ended; `None` while a stream goes on.
        n_tokens: Generated tokens, by the server's count; `None` where it gives none.
        n_prompt: Tokens of the prompt, the same.
        queue_s: In the server's queue, seconds.
        prefill_s: From there to the first token.
        decode_s: From the first token to the last; `None` where the server keeps no time.
    """

    text: str
    ids: tuple[int, ...] | None
    ended: Ended | None
    n_tokens: int | None = None
    n_prompt: int | None = None
    queue_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float | None = None

    @property
    def server_s(self) -> float | None:
        """The server's own time, or `None`."""
        return None if self.decode_s is None else self.queue_s + self.prefill_s + self.decode_s


def sampling_fields(flavour: Flavour, sampling: SamplingParams, n_before: int) -> dict[str, Any]:
    """How tokens are chosen, in the server's words.

    Args:
        flavour: Whose words.
        sampling: The settings and the request's seed.
        n_before: Tokens generated before; with the seed it fixes the draws of this request.
    """
    fields: dict[str, Any] = {"temperature": sampling.temperature}
    penalty = flavour.names.get("repetition_penalty")
    if penalty:
        fields[penalty] = sampling.repetition_penalty
    if sampling.greedy:
        return fields
    fields.update(top_p=sampling.top_p, seed=(sampling.seed + 7919 * n_before) % _SEEDS)
    settings = {"top_k": sampling.top_k or flavour.no_top_k, "min_p": sampling.min_p}
    return {**fields, **{flavour.names[k]: v for k, v in settings.items() if k in flavour.names}}


def encode(fields: Mapping[str, Any], prompt: str) -> bytes:
    """A body whose prompt is JSON already: a long one is not written anew at every handoff.

    Examples:
        >>> encode({"model": "m"}, "[1, 2]")
        b'{"model": "m", "prompt": [1, 2]}'
    """
    return f'{json.dumps(fields)[:-1]}, "prompt": {prompt}}}'.encode()


def read_reply(data: Mapping[str, Any], stops: Sequence[str] = ()) -> Reply:
    """Read a whole reply or one event, of any flavour.

    Args:
        data: The JSON object.
        stops: The stop strings that were sent: some servers do not say which one it was, or
            whether it was the end of the text.

    Raises:
        Unreadable: It has no choices, or something in it is not what it should be.
    """
    try:
        reply = _read(data, stops)
        _check(reply)
    except (TypeError, AttributeError, LookupError, ValueError, OverflowError) as error:
        raise Unreadable(f"its reply makes no sense ({error}): {str(data)[:60]}") from error
    return reply


def _check(reply: Reply) -> None:
    """Types alone: what a server says of a text can only be believed."""
    if not isinstance(reply.text, str):
        raise TypeError("text is no string")
    if not all(type(i) is int and i >= 0 for i in reply.ids or ()):
        raise TypeError("token ids are no numbers")
    if reply.server_s is not None and not 0 <= reply.server_s < math.inf:
        raise ValueError("times are no seconds")


def _read(data: Mapping[str, Any], stops: Sequence[str]) -> Reply:
    choice = _choice(data)
    verbose = data.get("__verbose") or {}
    text = choice.get("text") or ""
    ids = choice.get("token_ids", verbose.get("tokens"))
    usage = data.get("usage") or {}
    return Reply(
        text,
        None if ids is None else tuple(ids),
        _ended(choice, verbose, text, stops),
        usage.get("completion_tokens", verbose.get("tokens_predicted")),
        usage.get("prompt_tokens"),
        *_times_s(data),
    )


def _choice(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The one choice; the last event of a stream may hold usage alone."""
    choices = data.get("choices")
    if choices:
        return dict(choices[0])
    if choices == [] and data.get("usage"):
        return {}
    said = data.get("error") or data.get("message") or "it has no choices"
    raise Unreadable(str(said))


def _ended(
    choice: Mapping[str, Any], verbose: Mapping[str, Any], text: str, stops: Sequence[str]
) -> Ended | None:
    finish = choice.get("finish_reason")
    if finish is None:
        return None
    if finish == "length":
        return "length"
    if "stop_type" in verbose:
        return "stop" if verbose["stop_type"] == "word" else "eos"
    for name in ("stop_reason", "matched_stop"):  # a string, a token id, or null at an end
        if name in choice:
            return "stop" if isinstance(choice[name], str) else "eos"
    return "stop" if any(text.endswith(stop) for stop in stops) else "eos"


def _times_s(data: Mapping[str, Any]) -> tuple[float, float, float | None]:
    """The server's own times: queue, prefill, decode."""
    told = data.get("metrics") or {}  # vLLM with --enable-per-request-metrics
    if told.get("generation_time_ms") is not None:
        names = ("queue_time_ms", "time_to_first_token_ms", "generation_time_ms")
        queue_s, prefill_s, decode_s = ((told.get(name) or 0.0) / 1000 for name in names)
        return queue_s, prefill_s, decode_s
    told = data.get("timings") or {}  # llama.cpp
    if "predicted_ms" in told:
        return 0.0, told["prompt_ms"] / 1000, told["predicted_ms"] / 1000
    return 0.0, 0.0, None
