"""Models of the tests: the embedded pair, and tiny random ones of every kind of cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from relaygen_lmeval.demo import demo_path, load_problems
from relaygen_lmeval.demo.problems import prompt
from relaygen_lmeval.models.pair import Pair, load_pair
from relaygen_lmeval.options.policy_choice import load_cues
from relaygen_lmeval.relay import Relay, parse_options


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Tiny models run fastest so, and tests share the machine."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(demo_path() / "large")


@pytest.fixture(scope="session")
def pair() -> Pair:
    """The embedded pair, loaded once."""
    return load_pair(parse_options({}))


@pytest.fixture(scope="session")
def same_pair(pair: Pair) -> Pair:
    """The large model in both roles."""
    return Pair(pair.large, pair.large, shares_ids=True)


@pytest.fixture
def make_relay(pair: Pair) -> Iterator[Any]:
    """A function that makes a relay of options over an already loaded pair."""
    made: list[Relay] = []

    def make(of: Pair = pair, **options: Any) -> Relay:
        config = parse_options({"batch_size": 1, **options})
        made.append(Relay(config, of, load_cues(config)))
        return made[-1]

    yield make
    for relay in made:
        relay.close()


@pytest.fixture(scope="session")
def questions() -> list[str]:
    """100 test problems of the embedded task."""
    return [prompt(str(row["question"])) for row in load_problems("test")[:100]]
