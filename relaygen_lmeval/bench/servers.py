"""What a handoff over servers costs, ours beside a plain client's, on texts of a given length.

Both write the same turns: the models alternate, a fixed number of tokens each, after a text that
is already there. The plain client does at every turn what the published code does: lists the
models, writes the chat template anew, tokenises the whole text to count it, and sends it as text.
Rounds are interleaved; ratios are taken within a round.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import httpx
from lm_eval.utils import simple_parse_args_string

from relaygen_lmeval.bench.server_figures import OURS, PLAIN, Turned, figures_of
from relaygen_lmeval.core.types import Chunk, Phase, Piece, RelayRequest, Role, StopRule, Turn
from relaygen_lmeval.demo import load_problems
from relaygen_lmeval.demo.problems import prompt
from relaygen_lmeval.engines.server.abilities import PATH
from relaygen_lmeval.engines.server.client import TRACE
from relaygen_lmeval.engines.server.engine import ServerEngine
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.models.served import ServedModel, load_served_pair, make_server_engine
from relaygen_lmeval.provenance import versions
from relaygen_lmeval.relay import parse_options

_STOPS = ["Wait", "So,", "Thus,", "\n</think>"]  # four, as many as every server takes


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured.

    Attributes:
        n_turns: Handoffs of each text.
        n_tokens: Tokens of each turn.
        lengths: Tokens of text before the first turn.
        at_once: Texts under way at once.
        repeats: Measured rounds, after one to warm up.
    """

    n_turns: int = 8
    n_tokens: int = 16
    lengths: tuple[int, ...] = (500, 8000)
    at_once: tuple[int, ...] = (1, 16)
    repeats: int = 5


class Stopwatch:
    """Notes when the bytes of a request left and when those of its reply had come.

    httpcore calls it; one is made for each request.
    """

    def __init__(self) -> None:
        self.sent_s = self.came_s = 0.0

    async def __call__(self, event: str, info: Any) -> None:
        """Take note of an event of the connection."""
        if event == "http11.send_request_headers.started":
            self.sent_s = perf_counter()
        elif event == "http11.receive_response_body.complete":
            self.came_s = perf_counter()

    @property
    def away_s(self) -> float:
        """Seconds in which nothing was to be done here."""
        return self.came_s - self.sent_s


class OurClient:
    """Turns through the package's own engine."""

    def __init__(self, models: dict[Role, ServedModel]) -> None:
        self._engines = {
            role: make_server_engine(role, model, shares_ids=True, cut="server")
            for role, model in models.items()
        }

    async def write(self, request: RelayRequest, text: Piece, plan: Plan) -> list[Turned]:
        """Hand over `n_turns` times."""
        chunks = [_chunk(text)]
        turned = []
        for n in range(plan.n_turns):
            role = list(Role)[n % 2]
            chunk, one = await self._turn(self._engines[role], request, role, chunks, plan)
            chunks.append(chunk)
            turned.append(one)
        for engine in self._engines.values():
            engine.release(request.seq_id)
        return turned

    async def _turn(
        self,
        engine: ServerEngine,
        request: RelayRequest,
        role: Role,
        chunks: Sequence[Chunk],
        plan: Plan,
    ) -> tuple[Chunk, Turned]:
        turn = Turn(request, role, Phase.REASONING, tuple(chunks), StopRule(), plan.n_tokens)
        watch = Stopwatch()
        TRACE.set(watch)
        began_s = perf_counter()
        chunk = await engine.run(turn)
        turn_s = perf_counter() - began_s
        assert chunk.timing.wire is not None
        sent_bytes = chunk.timing.wire.sent_bytes
        return chunk, Turned(turn_s, watch.away_s, sent_bytes, max(1, chunk.n_tokens))


class PlainClient:
    """Turns as the published code makes them, at its best: connections are kept."""

    def __init__(self, models: dict[Role, ServedModel], session: httpx.AsyncClient) -> None:
        self._models = models
        self._session = session

    async def write(self, question: str, text: str, plan: Plan) -> list[Turned]:
        """Hand over `n_turns` times."""
        turned = []
        for n in range(plan.n_turns):
            more, one = await self._turn(list(Role)[n % 2], question, text, plan)
            text += more
            turned.append(one)
        return turned

    async def _turn(self, role: Role, question: str, text: str, plan: Plan) -> tuple[str, Turned]:
        model = self._models[role]
        assert model.served is not None
        began_s = perf_counter()
        await self._session.get(model.client.url + "/v1/models")
        whole = str(model.apply_chat_template([{"role": "user", "content": question}])) + text
        model.tokenizer.encode(whole)  # counted against the budget
        fields = {"model": model.served.name, "prompt": whole, "max_tokens": plan.n_tokens}
        fields |= {"temperature": 0.0, "stop": _STOPS, "include_stop_str_in_output": True}
        body = json.dumps(fields).encode()
        watch = Stopwatch()
        headers = {"Content-Type": "application/json"}
        reply = await self._session.post(
            model.client.url + PATH, content=body, headers=headers, extensions={"trace": watch}
        )
        told = reply.json()
        turn_s = perf_counter() - began_s
        n_tokens = max(1, told["usage"]["completion_tokens"])
        return told["choices"][0]["text"], Turned(turn_s, watch.away_s, len(body), n_tokens)


def run_server_bench(model_args: str, plan: Plan) -> dict[str, Any]:
    """Measure; see `relaygen bench servers --help`.

    Returns:
        `{"settings", "figures": {length: {at_once: {client: figures}}}}`; seconds and bytes.
    """
    config = parse_options(simple_parse_args_string(model_args))
    if config.engine == "local" or config.small is None:
        raise ConfigError(
            "bench servers needs a pair of servers: engine=server,base_url=..., or vllm"
        )
    config = replace(config, num_concurrent=max(plan.at_once))
    pair = load_served_pair(config)
    models = {role: pair[role] for role in Role}
    try:
        figures = asyncio.run(_measure(models, plan))
    finally:
        for model in models.values():
            if model.process:
                model.process.stop()
    settings = {"pretrained": config.pretrained, "small": config.small, "versions": versions()}
    return {"settings": {**settings, "plan": repr(plan)}, "figures": figures}


async def _measure(models: dict[Role, Any], plan: Plan) -> dict[int, Any]:
    ours = OurClient(models)
    figures: dict[int, Any] = {}
    limits = httpx.Limits(max_connections=64, max_keepalive_connections=64, keepalive_expiry=4.0)
    async with httpx.AsyncClient(timeout=600.0, limits=limits) as session:
        plain = PlainClient(models, session)
        for length in plan.lengths:
            for n in plan.at_once:
                rounds = [
                    await _round(ours, plain, models, plan, length, n)
                    for _ in range(plan.repeats + 1)
                ]
                figures.setdefault(length, {})[n] = figures_of(rounds[1:])
    return figures


async def _round(
    ours: OurClient, plain: PlainClient, models: dict[Role, Any], plan: Plan, length: int, n: int
) -> dict[str, tuple[float, list[Turned]]]:
    """Both clients on the same `n` texts; wall time in seconds and every turn."""
    model = models[Role.LARGE]
    texts = [_text(model, length, i) for i in range(n)]
    question = prompt(str(load_problems("test")[0]["question"]))
    templated = str(model.apply_chat_template([{"role": "user", "content": question}]))
    ids = tuple(model.tok_batch_encode([templated])[0][0].tolist())
    piece = Piece(templated, ids)
    requests = [RelayRequest(i, dict.fromkeys(Role, piece), max_tokens=10**6) for i in range(n)]
    began_s = perf_counter()
    mine = await asyncio.gather(
        *(ours.write(r, t, plan) for r, t in zip(requests, texts, strict=True))
    )
    middle_s = perf_counter()
    theirs = await asyncio.gather(*(plain.write(question, t.text, plan) for t in texts))
    ended_s = perf_counter()
    return {
        OURS: (middle_s - began_s, [one for turns in mine for one in turns]),
        PLAIN: (ended_s - middle_s, [one for turns in theirs for one in turns]),
    }


def _text(model: Any, length: int, i: int) -> Piece:
    """A text of `length` tokens; all begin alike, so that one prefill serves them."""
    rows = load_problems("test")
    own = f" {rows[i]['question']}"
    whole = " ".join(str(row["reasoning"]) for row in rows)[: 8 * length]  # characters: enough
    tail = model.tokenizer.encode(own, add_special_tokens=False)
    ids = [*model.tokenizer.encode(whole, add_special_tokens=False)[: length - len(tail)], *tail]
    return Piece(str(model.tokenizer.decode(ids)), tuple(ids))


def _chunk(text: Piece) -> Chunk:
    n = len(text.token_ids)
    return Chunk(Role.LARGE, Phase.REASONING, text.text, text.token_ids, n, "cue")
