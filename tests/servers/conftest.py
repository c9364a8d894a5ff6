"""Relays over a server that writes a story, and what the same relay writes without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.policies import RelayGen
from relaygen_lmeval.core.policy import Policy
from relaygen_lmeval.core.types import Piece, RelayRequest, RelayResult, Role
from relaygen_lmeval.demo.widen import write_wide_pair
from relaygen_lmeval.engines.base import Engine
from relaygen_lmeval.engines.scripted import EOS, ScriptedEngine
from relaygen_lmeval.engines.server.abilities import find_served
from relaygen_lmeval.engines.server.client import Client
from relaygen_lmeval.engines.server.engine import ServerEngine
from relaygen_lmeval.runner import relay_all, relay_one
from tests.servers.loopback import Loopback, Manner, Story

# Cues in longer words, at the very beginning, before a full stop; dots that end no sentence; a
# character of several tokens; the end of the reasoning, and an answer with a stop string in it.
STORY = (
    "So Tom has 12 pens, I know. Some say 3.14 is less. Now 12 - 5 = 7, e.g. seven. 🙂 Then, "
    'he buys 7 more. "So 7 + 7 = 14." That is all I know now. Therefore.\nSo it is 14 pens in '
    "all.\n</think>\n\nThe answer is 14.\n\nQ: next"
)
CUES = CueTable(("now", "Now", "So", "Then,", "Therefore"))
PROMPT = "Tom has 12 pens.\n<think>"


def story_request(tokenizer: Any, seq_id: int = 0, **options: Any) -> RelayRequest:
    piece = Piece(PROMPT, tuple(tokenizer.encode(PROMPT, add_special_tokens=False)))
    settings = {"thinks": True, "until": ("Q:",), "max_answer_tokens": 100, **options}
    return RelayRequest(seq_id, dict.fromkeys(Role, piece), max_tokens=400, **settings)


def written(result: RelayResult) -> list[tuple[Any, ...]]:
    return [(s.role, s.text, s.n_tokens, s.ended_by, s.matched) for s in result.segments]


@pytest.fixture(scope="session")
def story(tokenizer: Any) -> Story:
    return Story(tokenizer, STORY)


@pytest.fixture
def serve(story: Story) -> Iterator[Callable[..., Loopback]]:
    """A function that starts a server of a certain manner."""
    started: list[Loopback] = []

    def start(manner: Manner | None = None) -> Loopback:
        started.append(Loopback(story, manner))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="session")
def wide_pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded pair with heads as wide as servers want them."""
    return write_wide_pair(tmp_path_factory.mktemp("wide"))


@pytest.fixture
def policy() -> Policy:
    return RelayGen(cues=CUES)


@pytest.fixture
def expected(story: Story, policy: Policy) -> list[tuple[Any, ...]]:
    """The segments as an engine without a server gives them."""
    pieces = [story.tokenizer.decode([i]) for i in story.ids]
    engine = ScriptedEngine(lambda turn: [*_whole(story, pieces)[turn.n_before :], EOS])
    request = story_request(story.tokenizer)
    engines = dict.fromkeys(Role, engine)
    return written(asyncio.run(relay_one(request, policy, engines)))


def _whole(story: Story, pieces: list[str]) -> list[str]:
    """The story's tokens as text, half characters empty, as a detokenizer gives them."""
    from relaygen_lmeval.engines.local.detokenizer import make_detokenizer

    detokenizer = make_detokenizer(story.tokenizer, ())
    return [detokenizer.step(i) for i in story.ids]


async def make_engine(
    server: Loopback, tokenizer: Any, role: Role = Role.LARGE, **options: Any
) -> ServerEngine:
    settings = {"timeout_s": 1.0, "max_retries": 3, "n_connections": 8, **options.pop("client", {})}
    client = Client(server.url, **settings)
    ids = tokenizer.encode("Tom", add_special_tokens=False)
    served = await find_served(client, "story", ids, "Tom", options.pop("abilities", None))
    eos = frozenset({tokenizer.eos_token_id})
    return ServerEngine(role, client, served, tokenizer, eos=eos, **options)


def run_relay(
    server: Loopback,
    story: Story,
    policy: Policy,
    requests: list[RelayRequest] | None = None,
    faults: list[str] | None = None,
    on_result: Callable[[RelayResult], None] = lambda result: None,
    **options: Any,
) -> list[RelayResult]:
    """Relay over one server in both roles; faults begin after the probes."""
    requests = requests or [story_request(story.tokenizer)]
    results: dict[int, RelayResult] = {}

    def keep(result: RelayResult) -> None:
        results[result.request.seq_id] = result
        on_result(result)

    async def work() -> None:
        engines: Mapping[Role, Engine] = {
            role: await make_engine(server, story.tokenizer, role, **options) for role in Role
        }
        server.asked.clear()
        server.connections.clear()
        server.faults = list(faults or [])
        await relay_all(requests, policy, engines, n_at_once=8, on_result=keep)

    asyncio.run(work())
    return [results[request.seq_id] for request in requests]
