"""The engine's contract, over sockets: whatever a server can, the relay writes the same."""

from __future__ import annotations

import asyncio

import pytest

from relaygen_lmeval.core.types import Chunk, Phase, Role, SamplingParams, StopRule, Turn
from relaygen_lmeval.engines.server import engine as engine_module
from relaygen_lmeval.errors import ServerError
from tests.servers.conftest import make_engine, run_relay, story_request, written
from tests.servers.loopback import Manner

MANNERS = {
    "vllm": Manner(),
    "vllm of four stops": Manner(max_stops=4),
    "llama.cpp": Manner(owner="llamacpp", shows_stop=False),
    "a reasoning parser that ignores stops": Manner(obeys_stops=False),
    "no streams": Manner(streams=False),
}
TEXT_MANNERS = {
    "older vllm": Manner(gives_ids=False),
    "sglang": Manner(owner="sglang", gives_ids=False),
    "nothing but text and streams": Manner(
        owner="else", takes_ids=False, gives_ids=False, shows_stop=False, strict=True
    ),
}


@pytest.mark.parametrize("name", MANNERS)
def test_segments_are_those_of_any_engine(name, serve, story, policy, expected):
    server = serve(MANNERS[name])

    result = run_relay(server, story, policy)[0]

    assert written(result) == expected
    assert {s.ended_by for s in result.segments} >= {"cue", "boundary", "think_end", "until"}


@pytest.mark.parametrize("name", TEXT_MANNERS)
def test_without_ids_the_text_and_its_turns_are_the_same(name, serve, story, policy, expected):
    """Only where a token ends may differ, for the server does not say."""
    result = run_relay(serve(TEXT_MANNERS[name]), story, policy)[0]

    assert result.text == "".join(text for _, text, *_ in expected)
    assert [s[:1] + s[3:] for s in written(result)] == [s[:1] + s[3:] for s in expected]


@pytest.mark.parametrize("cut", ["server", "stream"])
def test_who_cuts_changes_no_text(cut, serve, story, policy, expected):
    result = run_relay(serve(), story, policy, cut=cut)[0]

    assert written(result) == expected


def test_a_handoff_is_one_request_and_no_other_call(serve, story, policy):
    server = serve()

    result = run_relay(server, story, policy, cut="stream")[0]

    turns = [s for s in result.segments if s.role]
    assert len(server.asked) == len(turns)
    assert all(s.timing.wire and s.timing.wire.n_requests == 1 for s in turns)


def test_a_stop_inside_a_longer_word_resumes_the_same_model(serve, story, policy, expected):
    server = serve()

    result = run_relay(server, story, policy, cut="server")[0]

    n_requests = sum(s.timing.wire.n_requests for s in result.segments if s.timing.wire)
    assert n_requests == len(server.asked) > len(result.segments)  # "know " holds "now "
    assert written(result) == expected


def test_ids_are_sent_and_the_text_never_encoded_anew(serve, story, policy):
    server = serve()

    result = run_relay(server, story, policy)[0]

    assert all(isinstance(body["prompt"], list) for body in server.asked)
    assert [i for s in result.segments for i in s.token_ids] == story.ids[: result.n_tokens]
    assert all(s.timing.wire.changed_seams == 0 for s in result.segments if s.timing.wire)


def test_a_long_turn_comes_in_several_replies(serve, story, policy, expected, monkeypatch):
    """So that a server is never silent for as long as a whole reasoning takes."""
    monkeypatch.setattr(engine_module, "_MOST_AT_ONCE", 7)
    server = serve()

    result = run_relay(server, story, policy, cut="server")[0]

    assert written(result) == expected
    assert max(body["max_tokens"] for body in server.asked) == 7


def test_keep_alive_serves_all_turns_from_one_connection(serve, story, policy):
    server = serve()

    run_relay(server, story, policy, cut="server")

    assert len(set(server.connections)) <= 2  # one for each role


def test_text_is_sent_where_no_ids_are_taken(serve, story, policy):
    server = serve(TEXT_MANNERS["nothing but text and streams"])

    run_relay(server, story, policy)

    assert all(isinstance(body["prompt"], str) for body in server.asked)


@pytest.mark.parametrize(("left", "right", "n"), [("So Tom ha", "s 12", 1), ("So Tom", " has", 0)])
def test_seams_that_reading_anew_changes_are_counted(left, right, n, serve, story):
    """Handed over by text: the partner wrote one piece, and another the next."""

    async def work() -> Chunk:
        engine = await make_engine(serve(), story.tokenizer, shares_ids=False)
        ids = [tuple(story.tokenizer.encode(t, add_special_tokens=False)) for t in (left, right)]
        chunks = [
            Chunk(Role.LARGE, Phase.REASONING, left, ids[0], len(ids[0]), "cue"),
            Chunk(Role.SMALL, Phase.REASONING, right, ids[1], len(ids[1]), "boundary"),
        ]
        request = story_request(story.tokenizer)
        turn = Turn(request, Role.LARGE, Phase.REASONING, tuple(chunks), StopRule(), 4)
        return await engine.run(turn)

    chunk = asyncio.run(work())

    assert chunk.timing.wire is not None
    assert chunk.timing.wire.changed_seams == n


def test_sampling_is_sent_in_the_servers_words(serve, story, policy):
    sampling = SamplingParams(temperature=0.6, top_p=0.9, top_k=20, min_p=0.1, seed=5)
    server = serve(Manner(owner="llamacpp", shows_stop=False))

    run_relay(server, story, policy, [story_request(story.tokenizer, sampling=sampling)])

    first, second = server.asked[:2]
    sent = {name: first[name] for name in ("temperature", "top_p", "top_k", "min_p")}
    assert sent == {"temperature": 0.6, "top_p": 0.9, "top_k": 20, "min_p": 0.1}
    assert first["repeat_penalty"] == 1.0
    assert first["seed"] != second["seed"]
    assert "min_tokens" not in first


def test_a_server_that_cannot_serve_is_refused_with_what_it_lacks(serve, story):
    server = serve(
        Manner(owner="else", gives_ids=False, shows_stop=False, streams=False, strict=True)
    )

    with pytest.raises(ServerError, match=r"cannot relay: it must stream.*cannot token_ids"):
        asyncio.run(make_engine(server, story.tokenizer))


def test_abilities_are_found(serve, story):
    engine = asyncio.run(make_engine(serve(Manner(max_stops=4)), story.tokenizer))

    abilities = engine._served.abilities
    assert (abilities.prompt_ids, abilities.token_ids, abilities.stops) == (True, True, True)
    assert (abilities.stop_text, abilities.streams, abilities.min_tokens) == (True, True, True)
    assert (abilities.echo, abilities.prompt_logprobs, abilities.times) == (False, False, False)
    assert engine._served.max_stops == 4


def test_abilities_can_be_overridden(serve, story, policy, expected):
    server = serve()

    result = run_relay(server, story, policy, abilities="-token_ids/-prompt_ids")[0]

    assert isinstance(server.asked[0]["prompt"], str)
    assert result.text == "".join(text for _, text, *_ in expected)


def test_a_wrong_model_is_named_with_those_that_are_served(serve, story):
    server = serve()
    server.model = "another"

    with pytest.raises(ServerError, match="has no model 'story'; it serves another"):
        asyncio.run(make_engine(server, story.tokenizer))


def test_many_requests_at_once_stay_apart(serve, story, policy, expected):
    requests = [story_request(story.tokenizer, seq_id=i) for i in range(20)]

    results = run_relay(serve(), story, policy, requests)

    assert [written(result) for result in results] == [expected] * 20
    assert [result.request.seq_id for result in results] == list(range(20))


def test_a_released_request_is_forgotten(serve, story):
    engine = asyncio.run(make_engine(serve(), story.tokenizer, Role.SMALL))
    engine._tracks[3] = engine._tracks.get(3)  # type: ignore[assignment]

    engine.release(3)
    engine.release(3)

    assert engine._tracks == {}
