"""Teacher-forced margins: those of whole forwards, in bounded memory."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from relaygen_lmeval.engines.local.margins import margin_of, margins
from relaygen_lmeval.errors import EngineError
from tests.engines.tiny import gemma3, qwen3, qwen3_next

N_WORDS = 97
ROOT = Path(__file__).parents[2]


def by_hand(model, row: list[int], n_context: int) -> list[float]:
    with torch.inference_mode():
        logits = model(torch.tensor([row]), use_cache=False).logits[0].double()
    best = logits.softmax(-1).sort(-1, descending=True).values
    return [float(m) for m in (best[:, 0] - best[:, 1])[n_context - 1 : len(row) - 1]]


@pytest.mark.parametrize("make", [qwen3, gemma3, qwen3_next])
@pytest.mark.parametrize("max_logits", [N_WORDS, N_WORDS * 13, 2**24])
def test_margins_are_those_of_whole_forwards_however_they_are_chunked(make, max_logits):
    model, rng = make(N_WORDS), random.Random(0)
    lengths = (5, 40, 3, 77, 41, 2, 90)
    rows = [[rng.randrange(N_WORDS) for _ in range(n)] for n in lengths]
    n_context = [1, 7, 2, 50, 41, 1, 10]

    found = margins(model, rows, n_context, max_logits=max_logits)

    for row, n, values in zip(rows, n_context, found, strict=True):
        assert values == pytest.approx(by_hand(model, row, n), abs=1e-4)
        assert len(values) == len(row) - n


def test_a_margin_is_a_difference_of_probabilities():
    logits = torch.tensor([[0.0, 2.0, 1.0], [3.0, 3.0, -9.0]]).log_softmax(-1)

    assert margin_of(logits + 7)[0] == pytest.approx(
        float(logits.exp()[0, 1] - logits.exp()[0, 2]), abs=1e-6
    )
    assert margin_of(logits)[1] == pytest.approx(0.0, abs=1e-6)


def test_nothing_to_score():
    assert margins(qwen3(N_WORDS), [], []) == []


def test_a_text_without_a_prompt_is_refused():
    with pytest.raises(EngineError, match="without any prompt token"):
        margins(qwen3(N_WORDS), [[1, 2]], [0])


def test_logits_that_are_no_numbers_are_refused():
    model = qwen3(N_WORDS)
    with torch.no_grad():
        model.model.norm.weight.fill_(float("nan"))

    with pytest.raises(EngineError, match=r"text 0: the logits are not finite.*float32"):
        margins(model, [[1, 2, 3]], [1])


MEMORY = """
import resource, sys, torch
torch.set_num_threads(1)
from relaygen_lmeval.engines.local.margins import margins
from tests.engines.tiny import qwen3

def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

model = qwen3(150_000, max_position_embeddings=40_000)
margins(model, [[1] * 8], [4])
before = peak_mib()
[found] = margins(model, [[i % 1000 for i in range(32_050)]], [50])
assert len(found) == 32_000
print(peak_mib() - before)
"""


@pytest.mark.slow
def test_a_long_trace_of_a_large_vocabulary_stays_under_one_gib():
    """All logits at once would be 32,000 * 150,000 * 4 bytes: 18 GiB."""
    command = [sys.executable, "-c", MEMORY]
    shown = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=550
    )

    assert float(shown.stdout) < 1024
