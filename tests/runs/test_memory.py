"""A run of many requests holds no more than one of few: finished texts leave the memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from relaygen_lmeval.core.types import RelayRequest, RelayResult
from relaygen_lmeval.journal import Label
from relaygen_lmeval.journal.reading import read_journal
from relaygen_lmeval.run import Run

MB = 1e6
MOST_MB = 15.0  # the allocator alone makes -1 to 5 of it, from run to run
LENGTHS = (100, 2000)


def rss_mb() -> float:
    """Memory of this process that is in use, in MB."""
    gc.collect()
    return float(psutil.Process().memory_info().rss) / MB


def n_alive(kind: type) -> int:
    """Objects of a class that something still holds."""
    gc.collect()
    return sum(type(found) is kind for found in gc.get_objects())


@pytest.fixture
def run(make_relay: Any, tmp_path: Any) -> Iterator[Run]:
    made = Run(make_relay(batch_size=16), tmp_path, {"config": {}})
    yield made
    made.journal.close()


@pytest.mark.slow
def test_two_thousand_requests_take_no_more_memory_than_a_hundred(run, make_relay, questions):
    """Both models have written within the first hundred, so all storage is there by then."""
    relay = make_relay(batch_size=16)
    n = LENGTHS[-1]
    prompts = [relay.requests.template(question) for question in questions]
    requests: list[RelayRequest] = [
        relay.requests.make(i, prompts[i % len(prompts)], max_tokens=24) for i in range(n)
    ]
    labels = [Label("many", i) for i in range(n)]
    seen: dict[int, float] = {}

    def on_record(seq_id: int, record: object) -> None:
        n_done = len(run.records)
        if n_done in LENGTHS:
            seen[n_done] = rss_mb()

    run.relay(requests, labels, on_record, quiet=True)

    assert sum(r["kind"] == "request" for r in read_journal(run.journal.path)) == n
    few, many = (seen[length] for length in LENGTHS)
    print(f"RSS after {LENGTHS[0]}: {few:.1f} MB, after {LENGTHS[1]}: {many:.1f} MB")
    assert many - few < MOST_MB
    assert n_alive(RelayResult) <= 1  # the last one, in a frame that is about to go
