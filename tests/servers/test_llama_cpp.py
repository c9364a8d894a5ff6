"""llama.cpp's own server on a real model: it ignores options without a word, and is seen through."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from relaygen_lmeval.core.policies import RelayGen
from relaygen_lmeval.core.stops import Scanner
from relaygen_lmeval.core.types import Role, Segment, StopRule
from relaygen_lmeval.engines.launch import ServerProcess, launch_pair
from relaygen_lmeval.engines.local.detokenizer import make_detokenizer
from relaygen_lmeval.errors import EngineError
from relaygen_lmeval.relay import Relay
from tests.servers.fetch_models import VARIABLE, model_file

QUESTIONS = ["Explain why the sky is blue.", "How do I boil an egg? Give the steps."]
N_TOKENS = 60


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    if importlib.util.find_spec("xllamacpp") is None and not shutil.which("llama-server"):
        pytest.skip("llama.cpp's server is not here: pip install xllamacpp")
    if importlib.util.find_spec("gguf") is None:
        pytest.skip("the tokenizer inside a .gguf file needs gguf: pip install gguf")
    model = model_file("smollm2")
    if not model.is_file():
        pytest.skip(f"no {model}: python -m tests.servers.fetch_models smollm2, or set {VARIABLE}")
    wanted = {Role.LARGE: (str(model), ["--context", "1024"])}
    started = launch_pair(wanted, "llama.cpp")[Role.LARGE]
    yield started
    started.stop()


@pytest.fixture
def make(server: ServerProcess) -> Iterator[Any]:
    made: list[Relay] = []

    def relay(**options: Any) -> Relay:
        model = model_file("smollm2")
        urls = {"base_url": server.url, "small_base_url": server.url}
        files = {"gguf_file": model.name, "small_gguf_file": model.name}
        given = {"cues": "all_candidates", "min_large_tokens": 1, "num_concurrent": 2, **options}
        relay = Relay.from_pretrained(
            str(model.parent), str(model.parent), engine="server", **urls, **files, **given
        )
        made.append(relay)
        return relay

    yield relay
    for relay_ in made:
        relay_.close()


def test_what_it_ignores_in_silence_is_found_out(make):
    served = make().pair.large.served

    abilities = served.abilities
    assert served.flavour.name == "llama.cpp"
    assert (abilities.prompt_ids, abilities.token_ids, abilities.stops) == (True, True, True)
    assert abilities.streams
    assert abilities.times
    assert not abilities.stop_text
    assert not abilities.min_tokens
    assert not abilities.prompt_logprobs
    assert not abilities.echo


@pytest.mark.slow
@pytest.mark.parametrize("cut", ["server", "stream"])
def test_every_segment_ends_where_the_matcher_says(cut, make):
    relay = make(cut=cut)

    results = relay.generate(QUESTIONS, max_tokens=N_TOKENS)

    for result in results:
        segments = [s for s in result.segments if s.role]
        assert sum(s.n_tokens for s in segments) == result.n_tokens <= N_TOKENS
        assert all(s.timing.wire and s.timing.wire.server_s for s in segments) or cut == "stream"
        for segment in segments[:-1]:
            assert ended_by(relay, segment) == segment.ended_by
    assert {s.ended_by for r in results for s in r.segments} & {"cue", "boundary"}


def ended_by(relay: Relay, segment: Segment) -> str | None:
    """What the matcher says of the segment's tokens: it stops at the last, and at none before."""
    large = segment.role is Role.LARGE
    assert isinstance(relay.policy, RelayGen)
    cue_rule = StopRule(cues=relay.policy.cues, min_tokens=1)
    scanner = Scanner(cue_rule if large else StopRule(boundary="sentence"))
    detokenizer = make_detokenizer(relay.pair.large.tokenizer, ())
    texts = [detokenizer.step(i) for i in segment.token_ids]
    stops = [stop for text in texts if (stop := scanner.feed(text))]
    if not large and not stops:  # the token that showed the end of the sentence was given back
        final = scanner.finish()
        stops = [final] if final else []
    assert len(stops) <= 1
    return stops[0].reason if stops else None


@pytest.mark.slow
def test_a_relay_of_a_model_with_itself_writes_what_it_writes_alone(make):
    alone = make(policy="large").generate(QUESTIONS, max_tokens=N_TOKENS)
    relayed = make().generate(QUESTIONS, max_tokens=N_TOKENS)

    same = [a.text == r.text for a, r in zip(alone, relayed, strict=True)]
    print(f"{sum(same)} of {len(same)} texts equal")  # float ties may differ with the batch
    assert any(same) or all(a.text[:20] == r.text[:20] for a, r in zip(alone, relayed, strict=True))


def test_margins_need_another_server(make):
    with pytest.raises(EngineError, match="gives no log-probabilities of a prompt, which margins"):
        make().pair.large.margins([[1, 2, 3]], [1])
