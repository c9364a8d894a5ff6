"""What goes wrong between here and a server, over real sockets."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from relaygen_lmeval.engines.server import client as client_module
from relaygen_lmeval.engines.server.client import Client, check_url
from relaygen_lmeval.errors import ConfigError, FailedRequests, ServerError
from tests.servers.conftest import make_engine, run_relay, story_request, written

PASSING = ["busy", "broken", "gateway", "reset", "truncated", "empty", "hang"]


@pytest.fixture(autouse=True)
def _little_delay(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "patient" not in request.keywords:
        monkeypatch.setattr(client_module, "_FIRST_DELAY_S", 0.01)


@pytest.mark.parametrize("cut", ["server", "stream"])
@pytest.mark.parametrize("fault", PASSING)
def test_a_passing_fault_is_tried_again_and_changes_no_text(
    fault, cut, serve, story, policy, expected
):
    server = serve()

    result = run_relay(server, story, policy, faults=["", fault, "", fault], cut=cut)[0]

    assert written(result) == expected
    wires = [s.timing.wire for s in result.segments if s.timing.wire]
    assert sum(wire.n_retries for wire in wires) == 2
    assert sum(wire.retry_s for wire in wires) > 0
    assert all(wire.retry_s == 0 for wire in wires if not wire.n_retries)


def test_retry_after_is_waited_for(serve, story, policy):
    began_s = time.perf_counter()

    result = run_relay(serve(), story, policy, faults=["busy"])[0]

    assert time.perf_counter() - began_s >= 1.0
    first = result.segments[0].timing.wire
    assert first is not None
    assert first.retry_s >= 1.0
    assert first.e2e_s < 1.0  # kept apart


def test_a_request_that_fails_for_good_is_named_and_the_rest_goes_on(
    serve, story, policy, expected
):
    server = serve()
    finished = []
    requests = [story_request(story.tokenizer, seq_id=i) for i in range(5)]

    with pytest.raises(FailedRequests, match="1 of 5 requests failed: ") as caught:
        run_relay(
            server,
            story,
            policy,
            requests,
            faults=["overflow"],
            on_result=lambda result: finished.append(written(result)),
        )

    assert next(iter(caught.value.failed.values())).endswith(
        "status 400: maximum context length is 4096 tokens"
    )
    assert finished == [expected] * 4


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("unknown_model", "status 404: The model does not exist."),
        ("overflow", "status 400: maximum context length"),
        ("elsewhere", "redirects to http://elsewhere.invalid/v1/completions, which is not"),
    ],
)
def test_what_asking_again_cannot_mend_is_said_at_once(fault, said, serve, story, policy):
    server = serve()

    with pytest.raises(FailedRequests, match=said):
        run_relay(server, story, policy, faults=[fault])

    assert len(server.asked) == 1


@pytest.mark.parametrize("fault", PASSING)
def test_what_does_not_pass_is_reported_after_max_retries(fault, serve, story, policy):
    server = serve()

    with pytest.raises(FailedRequests, match=r"tried 2 times"):
        run_relay(server, story, policy, faults=[fault] * 9, client={"max_retries": 1})

    assert len(server.asked) == 2


def test_a_refused_connection_names_the_url_and_what_to_run(serve, story):
    server = serve()
    server.stop()

    with pytest.raises(ServerError, match=rf"{server.url}: no connection .*relaygen serve"):
        asyncio.run(make_engine(server, story.tokenizer))


@pytest.mark.slow
@pytest.mark.patient
def test_a_server_that_dies_for_ten_seconds_is_waited_for(serve, story, policy, expected):
    server = serve()

    async def work():
        engine = await make_engine(server, story.tokenizer, client={"max_retries": 6})
        await asyncio.to_thread(server.die, 10.0)
        began_s = time.perf_counter()
        turn_text = await engine._client.get("/v1/models")
        return turn_text, time.perf_counter() - began_s

    models, waited_s = asyncio.run(work())

    assert models["data"][0]["id"] == "story"
    assert 10.0 <= waited_s < 40.0
    assert written(run_relay(server, story, policy)[0]) == expected


def test_the_key_is_sent_and_never_said(serve, story, policy, monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    server = serve()
    caplog.set_level(logging.DEBUG)

    with pytest.raises(FailedRequests) as caught:
        run_relay(server, story, policy, faults=["elsewhere"])

    assert server.headers[-1]["Authorization"] == "Bearer sk-very-secret"
    said = caplog.text + str(caught.value) + repr(caught.value.__cause__)
    assert "very-secret" not in said


def test_a_key_in_the_url_is_refused():
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as caught:
        check_url("http://me:secret@localhost:8000")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "/v1"])
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ConfigError, match="write http://HOST:PORT"):
        check_url(url)


def test_a_client_outlives_the_loop_it_was_used_in(serve):
    server = serve()
    client = Client(server.url, timeout_s=1.0, max_retries=0, n_connections=2)

    for _ in range(2):
        assert asyncio.run(client.get("/v1/models"))["data"]
