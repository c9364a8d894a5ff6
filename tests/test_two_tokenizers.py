"""A pair with different tokenizers hands over text: whole characters, whole words, all of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.policies import RelayGen
from relaygen_lmeval.core.types import Piece, RelayRequest, RelayResult, Role
from relaygen_lmeval.engines.local import LocalEngine
from relaygen_lmeval.engines.local.choice import make_forward
from relaygen_lmeval.engines.local.detokenizer import make_detokenizer
from relaygen_lmeval.engines.local.lane import Lane
from relaygen_lmeval.engines.local.pacer import Pacer
from relaygen_lmeval.models.pair import same_ids
from relaygen_lmeval.runner import relay_all

from .engines import tiny

ODD = "naïve 今日は 🙂👩\u200d🔬\r\n So, x"


@pytest.fixture(scope="module")
def by_bytes() -> Any:
    """One token a byte: every character beyond ASCII is split over tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<eos>": 0} | {byte: i + 1 for i, byte in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>")


@pytest.mark.parametrize("kind", ["fast", "slow"])
def test_the_text_of_tokens_one_by_one_is_the_text(tokenizer, by_bytes, monkeypatch, kind):
    for tok in (tokenizer, by_bytes):
        monkeypatch.setattr(type(tok), "is_fast", kind == "fast")
        ids = tok.encode(ODD, add_special_tokens=False)
        for start in (0, 3):
            stream = make_detokenizer(tok, ids[:start])
            before = tok.decode(ids[:start]) if start else ""
            if "\ufffd" not in before:
                assert before + "".join(stream.step(i) for i in ids[start:]) == ODD


@pytest.mark.parametrize("kind", ["fast", "slow"])
def test_bytes_that_are_no_text_do_not_stop_the_stream(by_bytes, monkeypatch, kind):
    monkeypatch.setattr(type(by_bytes), "is_fast", kind == "fast")
    smile = by_bytes.encode("🙂")
    stream = make_detokenizer(by_bytes, [])

    shown = "".join(stream.step(i) for i in [*smile[:2], *by_bytes.encode("a"), *smile, *smile])

    assert shown.endswith("🙂🙂") or "\ufffd" in shown


def test_tokenizers_are_told_apart_by_content(tokenizer, by_bytes):
    assert same_ids(tokenizer, tokenizer)
    assert not same_ids(tokenizer, by_bytes)


def relay(large_tok: Any, small_tok: Any, n_rows: int) -> list[RelayResult]:
    cues = CueTable(tuple("aeiou"), "substring")
    policy = RelayGen(cues=cues, min_large_tokens=3, max_small_tokens=9)
    pacer, engines = Pacer(), {}
    for role, tok, seed in ((Role.LARGE, large_tok, 1), (Role.SMALL, small_tok, 2)):
        model = tiny.qwen3(len(tok), seed)
        lane = Lane(role, model, tok, make_forward(model, n_rows), shares_ids=False)
        engines[role] = LocalEngine(lane, pacer)
    requests = []
    for i, text in enumerate([ODD, "Q: 今?", "x", "the sum of 3 and 4"]):
        prompts = {
            Role.LARGE: Piece(text, tuple(large_tok.encode(text))),
            Role.SMALL: Piece(text, tuple(small_tok.encode(text))),
        }
        requests.append(RelayRequest(i, prompts, max_tokens=120))
    results: list[RelayResult] = []
    work = relay_all(requests, policy, engines, n_at_once=n_rows, on_result=results.append)
    asyncio.run(work)
    pacer.close()
    return sorted(results, key=lambda result: result.request.seq_id)


@pytest.mark.parametrize("swapped", [False, True])
def test_what_is_handed_over_is_whole_text(tokenizer, by_bytes, swapped):
    """Random models write bytes at random: characters are cut at seams wherever they can be."""
    toks = (by_bytes, tokenizer) if swapped else (tokenizer, by_bytes)
    by_role = dict(zip(Role, toks, strict=True))

    results = relay(*toks, n_rows=2)

    assert sum(len(result.segments) for result in results) > 12
    for result in results:
        assert result.n_tokens <= 120
        for segment in result.segments:
            assert segment.role is not None
            whole = by_role[segment.role].decode(list(segment.token_ids))
            assert segment.text == whole or "\ufffd" in whole


def test_the_batch_changes_no_text(tokenizer, by_bytes):
    alone = relay(tokenizer, by_bytes, n_rows=1)

    assert [r.text for r in relay(tokenizer, by_bytes, n_rows=4)] == [r.text for r in alone]
