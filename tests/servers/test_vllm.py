"""vLLM itself, two servers on the embedded pair; `make servers` brings it.

RELAYGEN_TEST_VLLM names a Python that has vLLM. RELAYGEN_TEST_URLS (large, blank, small) names two
servers of `python -m relaygen_lmeval.demo.widen` models that are running already.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.instance import Instance

from relaygen_lmeval.core.types import Piece, RelayResult, Role, SamplingParams
from relaygen_lmeval.engines.local.margins import margins
from relaygen_lmeval.errors import FailedRequests, ServerError
from relaygen_lmeval.models.serve import start_servers
from relaygen_lmeval.models.served import ServedModel
from relaygen_lmeval.relay import Relay

N_PROBLEMS = 40
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def urls(wide_pair: Path) -> Iterator[dict[str, str]]:
    if given := os.environ.get("RELAYGEN_TEST_URLS"):
        large, small = given.split()
        yield {"base_url": large, "small_base_url": small}
        return
    python = os.environ.get("RELAYGEN_TEST_VLLM")
    if not python:
        pytest.skip("vLLM is not here: make servers, or name its Python in RELAYGEN_TEST_VLLM")
    more = ["--max-model-len", "2048"]
    servers = start_servers(
        {r: (str(wide_pair / r.value), more) for r in Role}, "vllm", python=python
    )
    yield {"base_url": servers[Role.LARGE].url, "small_base_url": servers[Role.SMALL].url}
    for server in servers.values():
        server.stop()


@pytest.fixture(scope="module")
def make(urls: dict[str, str], wide_pair: Path) -> Iterator[Any]:
    made: list[Relay] = []

    def relay(**options: Any) -> Relay:
        given = {"engine": "server", **urls, "cues": "demo", **options}
        if given["engine"] == "local":
            given = {k: v for k, v in given.items() if "url" not in k}
        made.append(
            Relay.from_pretrained(str(wide_pair / "large"), str(wide_pair / "small"), **given)
        )
        return made[-1]

    yield relay
    for relay_ in made:
        relay_.close()


@pytest.fixture(scope="module")
def local(make: Any, questions: list[str]) -> list[RelayResult]:
    relay: Relay = make(engine="local", batch_size=8)
    return relay.generate(questions[:N_PROBLEMS], max_tokens=400)


@pytest.mark.parametrize("cut", ["server", "stream"])
def test_greedy_text_is_the_local_engines(cut, make, local, questions):
    results = make(cut=cut).generate(questions[:N_PROBLEMS], max_tokens=400)

    ties = [(a, b) for a, b in zip(results, local, strict=True) if a.text != b.text]
    for a, b in ties:
        n = next(i for i in range(len(a.text)) if a.text[: i + 1] != b.text[: i + 1])
        print(
            f"differs after {n} characters: {a.text[n - 20 : n + 20]!r} {b.text[n - 20 : n + 20]!r}"
        )
    print(f"cut={cut}: {len(ties)} of {N_PROBLEMS} texts differ")
    assert len(ties) <= N_PROBLEMS // 10  # sums of floats in another order: ties may fall otherwise
    same = [(a, b) for a, b in zip(results, local, strict=True) if a.text == b.text]
    for a, b in same:
        assert [(s.role, s.token_ids, s.ended_by, s.matched) for s in a.segments] == [
            (s.role, s.token_ids, s.ended_by, s.matched) for s in b.segments
        ]


def test_it_is_found_to_do_all_that_it_does(make):
    served = make().pair.large.served

    assert served.flavour.name == "vLLM"
    assert served.max_length == 2048 or "RELAYGEN_TEST_URLS" in os.environ
    found = str(served.abilities)
    assert found.startswith(
        "can prompt_ids, token_ids, stops, stop_text, streams, min_tokens, seed"
    )
    assert "cannot nothing" in found


def test_sampled_text_repeats_by_seed(make, questions):
    sampling = SamplingParams(temperature=0.8, top_p=0.95, top_k=20, seed=3)
    relay = make()

    first, second = (
        [r.text for r in relay.generate(questions[:8], max_tokens=300, sampling=sampling)]
        for _ in range(2)
    )

    same = sum(a == b for a, b in zip(first, second, strict=True))
    print(f"{same} of 8 sampled texts repeat")  # batches of another size round otherwise
    assert same >= 6
    assert len(set(first)) == 8


def test_one_turn_is_one_request_and_its_times_add_up(make, questions):
    results = make(cut="stream", num_concurrent=1).generate(questions[:4], max_tokens=300)

    segments = [s for r in results for s in r.segments if s.role]
    for segment in segments[1:]:
        wire = segment.timing.wire
        assert wire is not None
        assert 0 < wire.ttft_s <= wire.e2e_s
        assert wire.n_retries == 0
    n_requests = sum(s.timing.wire.n_requests for s in segments if s.timing.wire)
    n_openings = len(results)  # the first words tell whether the model thinks: a turn of its own
    assert n_requests <= len(segments) + n_openings


def test_loglikelihoods_are_those_of_hf(make):
    mine = make().pair.large
    theirs = make(engine="local").pair.large
    requests = [
        Instance("loglikelihood", {}, ("Tom has 12 pens", " and buys 7 more."), 0),
        Instance("loglikelihood", {}, ("So 12 + 7", " = 19"), 1),
    ]

    assert isinstance(mine, ServedModel)
    got, wanted = mine.loglikelihood(requests), theirs.loglikelihood(requests)

    for (a, greedy_a), (b, greedy_b) in zip(got, wanted, strict=True):
        assert a == pytest.approx(b, abs=1e-2)
        assert greedy_a == greedy_b


def test_margins_are_those_of_a_forward_here(make, local):
    rows = [[*r.request.prompts[Role.SMALL].token_ids, *r.segments[0].token_ids] for r in local[:6]]
    n_context = [len(r.request.prompts[Role.SMALL].token_ids) for r in local[:6]]

    got = make().pair.small.margins(rows, n_context)
    wanted = margins(make(engine="local").pair.small.model, rows, n_context)

    assert [len(row) for row in got] == [len(row) for row in wanted]
    worst = max(
        abs(a - b) for x, y in zip(got, wanted, strict=True) for a, b in zip(x, y, strict=True)
    )
    print(f"largest difference of a margin: {worst:.1e}")
    assert worst < 1e-2


def test_a_text_too_long_is_refused_by_name(make, questions):
    relay = make()
    request = relay.requests.make(0, relay.requests.template(questions[0]), max_tokens=100)
    endless = Piece("", request.prompts[Role.LARGE].token_ids * 1000)
    long = replace(request, seq_id=1, prompts=dict.fromkeys(Role, endless))

    with pytest.raises(FailedRequests, match=r"1 of 2 requests failed: 1: .*status 400"):
        relay.run([request, long])


def test_a_wrong_name_is_refused_with_the_right_one(urls, wide_pair):
    with pytest.raises(ServerError, match=r"has no model 'nobody/nothing'; it serves "):
        Relay.from_pretrained(
            "nobody/nothing",
            "nobody/nothing",
            engine="server",
            cues="demo",
            tokenizer=str(wide_pair / "large"),
            small_tokenizer=str(wide_pair / "small"),
            **urls,
        )
