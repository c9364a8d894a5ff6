"""Ragged rows, crops and catch-ups give the logits of a fresh forward over the whole text."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from relaygen_lmeval.engines.local.choice import make_forward
from relaygen_lmeval.engines.local.forward import Feed, Forward, Track
from relaygen_lmeval.engines.local.ragged import RaggedForward
from relaygen_lmeval.engines.local.rowwise import RowwiseForward

from . import tiny

VOCAB = 64
KINDS = {"qwen3": tiny.qwen3, "gemma3": tiny.gemma3, "qwen3_next": tiny.qwen3_next}


def text(n: int, seed: int) -> list[int]:
    return random.Random(seed).choices(range(1, VOCAB), k=n)


def fresh(model: Any, ids: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
    return logits


def feed(forward: Forward, *feeds: tuple[Track, list[int]]) -> torch.Tensor:
    with torch.inference_mode():
        return forward.feed([Feed(track, ids) for track, ids in feeds])[:, -1]


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(torch.allclose(a, b, atol=2e-4, rtol=1e-4)) and int(a.argmax()) == int(b.argmax())


def test_the_kind_of_cache_decides_how_rows_are_fed():
    assert isinstance(make_forward(tiny.qwen3(VOCAB), 4), RaggedForward)
    assert isinstance(make_forward(tiny.gemma3(VOCAB), 4), RowwiseForward)
    assert isinstance(make_forward(tiny.qwen3_next(VOCAB), 4), RowwiseForward)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_ragged_rows_equal_single_ones(attention):
    model = tiny.qwen3(VOCAB, attn_implementation=attention)
    forward = make_forward(model, 4)
    texts = [text(n, n) for n in (3, 90, 1, 40)]

    tracks = [Track(list(ids)) for ids in texts]
    logits = feed(forward, *[(track, track.ids) for track in tracks])
    for row, ids in zip(logits, texts, strict=True):
        assert close(row, fresh(model, ids))
    logits = feed(forward, *[(track, [7]) for track in tracks])
    for row, ids in zip(logits, texts, strict=True):
        assert close(row, fresh(model, [*ids, 7]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_random_life_of_rows_equals_fresh_forwards(kind):
    """Rows come, are fed in any company, are cut back, catch up and leave; 60 steps."""
    model = KINDS[kind](VOCAB)
    forward = make_forward(model, 4)
    chance = random.Random(1)
    tracks: list[Track] = []
    for step in range(60):
        if len(tracks) < 4 and chance.random() < 0.4:
            tracks.append(Track(text(chance.randint(1, 30), step)))
        if not tracks:
            continue
        chosen = chance.sample(tracks, chance.randint(1, len(tracks)))
        for track in chosen:
            if len(track.cached) > 2 and chance.random() < 0.3:
                keep = chance.randint(1, len(track.cached) - 1)
                forward.crop(track, keep)
                track.ids = track.ids[:keep]
            track.ids = track.ids + text(chance.randint(1, 9), step)
        feeds = [(track, track.ids[len(track.cached) :]) for track in chosen]
        logits = feed(forward, *feeds)
        for row, track in zip(logits, chosen, strict=True):
            assert track.cached == track.ids
            assert close(row, fresh(model, track.ids)), (kind, step)
        if chance.random() < 0.2:
            forward.release(tracks.pop(chance.randrange(len(tracks))))


def test_a_long_text_is_read_in_parts(monkeypatch):
    monkeypatch.setattr("relaygen_lmeval.engines.local.forward.MAX_FEED", 16)
    model = tiny.qwen3(VOCAB)
    forward = make_forward(model, 2)
    ids = text(100, 0)

    logits = feed(forward, (Track(ids), ids), (Track([5]), [5]))

    assert close(logits[0], fresh(model, ids))
    assert close(logits[1], fresh(model, [5]))


def test_storage_grows_with_the_longest_row():
    model = tiny.qwen3(VOCAB)
    forward = make_forward(model, 1)
    track = Track(text(60, 0))
    feed(forward, (track, track.ids))
    for token in text(200, 1):
        track.ids.append(token)
        logits = feed(forward, (track, [token]))

    assert close(logits[0], fresh(model, track.ids))


@pytest.mark.parametrize("compile_steps", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_steps_catch_ups_and_verifications_equal_fresh_forwards(compile_steps):
    """Rows with less to read than others read their last tokens once more."""
    model = tiny.qwen3(VOCAB)
    forward = make_forward(model, 3, compile_steps=compile_steps, verifies=True)
    tracks = [Track(text(n, n)) for n in (5, 70, 20)]
    feed(forward, *[(track, track.ids) for track in tracks])
    for company in (tracks, tracks[:1], tracks[1:]):
        for counts, n_last in (([1, 1, 1], 1), ([7, 2, 4], 1), ([5, 3, 4], 3)):
            new = [text(n, n) for n in counts[: len(company)]]
            for track, ids in zip(company, new, strict=True):
                track.ids = [*track.ids, *ids]
            with torch.inference_mode():
                feeds = [Feed(track, ids) for track, ids in zip(company, new, strict=True)]
                logits = forward.feed(feeds, n_last)
            assert logits.shape[:2] == (len(company), n_last)
            for row, track in zip(logits, company, strict=True):
                for back in range(n_last):
                    end = len(track.ids) - back
                    assert close(row[-1 - back], fresh(model, track.ids[:end]))


def test_a_short_text_beside_a_longer_read_is_padded():
    """It has no earlier tokens to read again."""
    model = tiny.qwen3(VOCAB)
    forward = make_forward(model, 2)
    long, short = text(9, 1), text(3, 2)

    with torch.inference_mode():
        logits = forward.feed([Feed(Track(long), long), Feed(Track(short), short)], 2)

    for row, ids in zip(logits, (long, short), strict=True):
        assert close(row[-1], fresh(model, ids))
        assert close(row[-2], fresh(model, ids[:-1]))
