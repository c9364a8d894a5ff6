"""What a server can: asked once at its start, for servers ignore what they do not know in silence.

A few requests of some tokens each; the same text is written several times, greedily, and what
changes with an option shows whether the server knows it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from relaygen_lmeval.engines.server.client import Client, Json, events, read_json
from relaygen_lmeval.engines.server.wire import FLAVOURS, PLAIN, Flavour, Reply, read_reply
from relaygen_lmeval.errors import ConfigError, ServerError

log = logging.getLogger(__name__)

PATH = "/v1/completions"
MANY_STOPS = 1024  # more than any cue table makes
_FEW_STOPS = 4  # OpenAI's own limit, and vLLM's unless VLLM_MAX_STOP_STRINGS raises it
_N_TOKENS = 8
_ABSENT = "\u241e"  # a stop string that no model writes


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a server was found to do; each may be overridden by name.

    Attributes:
        prompt_ids: Takes a prompt of token ids.
        token_ids: Gives the ids of what it wrote.
        stops: Ends at a stop string.
        stop_text: Leaves the stop string in the text where asked to.
        streams: Gives its tokens one by one.
        min_tokens: Lets no stop string end a text before so many tokens. The relay keeps its
            own promise and never asks for it: servers pass over such a stop for good.
        seed: Samples the same with the same seed.
        prompt_logprobs: Gives log-probabilities of a prompt, which calibration needs.
        echo: Gives them the way the harness's `local-completions` asks for them.
        times: Tells its own time.
    """

    prompt_ids: bool = False
    token_ids: bool = False
    stops: bool = False
    stop_text: bool = False
    streams: bool = False
    min_tokens: bool = False
    seed: bool = False
    prompt_logprobs: bool = False
    echo: bool = False
    times: bool = False

    @property
    def whole_replies(self) -> bool:
        """Whether a reply that ends at a stop string shows all that the matcher must see."""
        return self.stops and (self.token_ids or self.stop_text)

    def __str__(self) -> str:
        """The names of what it can, and then of what it cannot."""
        can = [f.name for f in fields(self) if getattr(self, f.name)]
        cannot = [f.name for f in fields(self) if not getattr(self, f.name)]
        return f"can {', '.join(can) or 'nothing'}; cannot {', '.join(cannot) or 'nothing'}"


@dataclass(frozen=True, slots=True)
class Served:
    """A model as its server offers it.

    Attributes:
        name: As requests must name it.
        flavour: Whose dialect the server speaks.
        abilities: What it can.
        max_stops: How many stop strings it takes at once.
        max_length: Tokens of prompt and text; `None` where it does not say.
    """

    name: str
    flavour: Flavour
    abilities: Abilities
    max_stops: int
    max_length: int | None


def override(found: Abilities, said: str | None) -> Abilities:
    """Switch abilities on or off by name.

    Args:
        found: By probing.
        said: Such as `-token_ids/+stops`, apart by `/` or blanks.

    Raises:
        ConfigError: A name that is none.

    Examples:
        >>> override(Abilities(stops=True), "-stops/+seed").seed
        True
    """
    known = [f.name for f in fields(Abilities)]
    changes = {}
    for item in (said or "").replace("/", " ").split():
        if item[0] not in "+-" or item[1:] not in known:
            raise ConfigError(
                f"abilities={said}: '{item}' is none of + or - before {', '.join(known)}"
            )
        changes[item[1:]] = item[0] == "+"
    return replace(found, **changes)


async def find_served(
    client: Client, name: str, probe_ids: Sequence[int], probe_text: str, said: str | None = None
) -> Served:
    """Find the model on a server and what the server can.

    Args:
        client: The server's.
        name: The model's, or a folder's, which a server with one model need not know.
        probe_ids: A short prompt as token ids.
        probe_text: The same as text.
        said: What the user says of its abilities.

    Raises:
        ServerError: No server, no such model, or one that cannot serve a relay.
    """
    served = await _find_model(client, name)
    probe = _Probe(client, served, tuple(probe_ids), probe_text)
    abilities = override(await probe.abilities(), said)
    served = replace(served, abilities=abilities, max_stops=await probe.max_stops(abilities))
    log.info("server %s (%s): %s; %s", client.url, served.flavour.name, served.name, abilities)
    _check(client.url, abilities)
    return served


async def _find_model(client: Client, name: str) -> Served:
    found = (await client.get("/v1/models", retries=1)).get("data") or []
    by_name = {str(model.get("id")): model for model in found}
    owners = {str(model.get("owned_by")) for model in found}
    flavour = next((FLAVOURS[owner] for owner in owners if owner in FLAVOURS), PLAIN)
    wanted = name if name in by_name else _another(name, list(by_name), flavour)
    if wanted is None:
        raise ServerError(
            f"server {client.url} has no model '{name}'; it serves {', '.join(by_name) or 'none'}: "
            "name that one, and with tokenizer= the folder or hub name of its tokenizer"
        )
    if wanted != name:
        log.info("server %s knows '%s' as '%s'", client.url, name, wanted)
    model = by_name.get(wanted, {})
    length = model.get("max_model_len") or (model.get("meta") or {}).get("n_ctx")
    return Served(wanted, flavour, Abilities(), 0, length and int(length))


def _another(name: str, served: list[str], flavour: Flavour) -> str | None:
    """What to call a model that a server does not list.

    A folder may have another name on the server's machine, and where one model is served that is
    it; a hub name says which is meant. A server of no known kind may load what it is asked for.
    """
    if flavour is PLAIN:
        return None if served and not _is_folder(name) else name
    return served[0] if len(served) == 1 and _is_folder(name) else None


def _is_folder(name: str) -> bool:
    return name.startswith(("/", ".", "~"))


def _check(url: str, abilities: Abilities) -> None:
    if not abilities.whole_replies and not abilities.streams:
        raise ServerError(
            f"server {url} cannot relay: it must stream, or end at stop strings and show them "
            f"(by token ids or in the text); it {abilities}. If that is wrong, say so with "
            "abilities=+streams or the like"
        )


class _Probe:
    """The requests that find out; each is one option more than the first, plain one."""

    def __init__(self, client: Client, served: Served, ids: tuple[int, ...], text: str) -> None:
        self._client = client
        self._flavour = served.flavour
        self._base: Json = {"model": served.name, "max_tokens": _N_TOKENS, "temperature": 0.0}
        self._ids = ids
        self._text = text
        self._prompt: list[int] | str = list(ids)

    async def abilities(self) -> Abilities:
        """All of them; the first requests tell how to ask the others."""
        plain = await self._try(prompt=list(self._ids))
        prompt_ids = plain is not None and read_reply(plain).n_prompt in (None, len(self._ids))
        if not prompt_ids:
            self._prompt = self._text
            plain = await self._ask(prompt=self._text)
        assert plain is not None
        whole = read_reply(plain)
        with_ids = await self._try(**self._flavour.with_ids) if self._flavour.with_ids else None
        token_ids = with_ids is not None and read_reply(with_ids).ids is not None
        stops, stop_text, min_tokens = await self._stops(whole)
        streams, seed, prompt_logprobs, echo = await asyncio.gather(
            self._streams(), self._seed(), self._prompt_logprobs(), self._echo()
        )
        return Abilities(
            prompt_ids=prompt_ids,
            token_ids=token_ids,
            stops=stops,
            stop_text=stop_text,
            streams=streams,
            min_tokens=min_tokens,
            seed=seed,
            prompt_logprobs=prompt_logprobs,
            echo=echo,
            times=read_reply(with_ids or plain).server_s is not None,
        )

    async def max_stops(self, abilities: Abilities) -> int:
        """How many stop strings it takes at once."""
        if not abilities.stops:
            return 0
        many = [f"{_ABSENT}{n}" for n in range(MANY_STOPS)]
        return MANY_STOPS if await self._try(max_tokens=1, stop=many) else _FEW_STOPS

    async def _stops(self, whole: Reply) -> tuple[bool, bool, bool]:
        """Whether it stops, shows the stop, and counts `min_tokens`."""
        word = next(iter(whole.text.split()), "")[:4]
        if not word:
            log.warning("server %s wrote no text to a probe: stops are not tried", self._client.url)
            return False, False, False
        shown, least = await asyncio.gather(
            self._try(stop=[word], **self._flavour.with_stop_text),
            self._try(stop=[word], min_tokens=_N_TOKENS),
        )
        short = None if shown is None else read_reply(shown).text
        stops = short is not None and len(short) < len(whole.text)
        stop_text = bool(short is not None and stops and short.endswith(word))
        late = least is not None and word in read_reply(least).text
        return stops, stop_text, stops and late

    async def _streams(self) -> bool:
        body = json.dumps({**self._base, "prompt": self._prompt, "max_tokens": 2, "stream": True})
        try:
            asked = await self._client.post(PATH, body.encode(), _count_events, retries=0)
        except ServerError:
            return False
        return asked.value > 0

    async def _seed(self) -> bool:
        hot = {"temperature": 1.0, "seed": 7}
        first, second = await asyncio.gather(self._try(**hot), self._try(**hot))
        if first is None or second is None:
            return False
        return read_reply(first).text == read_reply(second).text

    async def _prompt_logprobs(self) -> bool:
        told = await self._try(max_tokens=1, prompt_logprobs=2)
        return told is not None and bool(told["choices"][0].get("prompt_logprobs"))

    async def _echo(self) -> bool:
        told = await self._try(max_tokens=1, echo=True, logprobs=1)
        logprobs = told["choices"][0].get("logprobs") if told else None
        return bool(logprobs and len(logprobs.get("token_logprobs") or []) > 1)

    async def _ask(self, **more: Any) -> Json:
        body = json.dumps({**self._base, "prompt": self._prompt, **more})
        return (await self._client.post(PATH, body.encode(), read_json, retries=1)).value

    async def _try(self, **more: Any) -> Json | None:
        """The reply, or `None` where the server refuses what it was asked."""
        try:
            return await self._ask(**more)
        except ServerError as error:
            log.debug("probe %s: %s", sorted(more), error)
            return None


async def _count_events(response: Any) -> int:
    return len([event async for event in events(response) if read_reply(event).text])
