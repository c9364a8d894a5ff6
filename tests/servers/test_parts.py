"""The pure parts of the engine: hints, replies, and what a turn keeps."""

from __future__ import annotations

import json

import pytest

from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.timing import Timing, Wire
from relaygen_lmeval.core.types import SamplingParams, StopRule
from relaygen_lmeval.engines.server.client import Unreadable
from relaygen_lmeval.engines.server.hints import round_tokens, stop_hints
from relaygen_lmeval.engines.server.wire import (
    LLAMA_CPP,
    SGLANG,
    VLLM,
    encode,
    read_reply,
    sampling_fields,
)


def test_a_word_is_sent_with_what_confirms_it():
    hints = stop_hints(StopRule(cues=CueTable(("Now", "So,", "so "))))

    assert {"Now ", "Now,", "So,", "so "} <= set(hints)
    assert "Now" not in hints  # it would stop at "Nowhere", and one token early
    assert not any(hint.endswith(("\n", ".")) for hint in hints)  # these end a cue's sentence


def test_substrings_are_sent_as_they_are():
    cues = CueTable(("now",), match="substring")

    assert stop_hints(StopRule(cues=cues)) == ("now",)


def test_ends_of_sentences_are_hinted_with_the_blank_behind_them():
    hints = stop_hints(StopRule(boundary="sentence"))

    assert {"\n", ". ", "? ", '." ', "\u3002"} <= set(hints)
    assert "." not in hints  # 3.14


def test_only_a_waiting_cue_or_an_opening_shortens_a_round():
    rule = StopRule(cues=CueTable(("So",)), min_tokens=5)

    assert round_tokens(rule, 2, 100, cue_waits=False) == 98
    assert round_tokens(rule, 2, 100, cue_waits=True) == 3
    assert round_tokens(rule, 7, 100, cue_waits=True) == 1
    assert round_tokens(StopRule(opening="<think>"), 0, 100, cue_waits=False) == 8


@pytest.mark.parametrize(
    ("choice", "extra", "ended"),
    [
        ({"finish_reason": "length"}, {}, "length"),
        ({"finish_reason": None}, {}, None),
        ({"finish_reason": "stop", "stop_reason": None}, {}, "eos"),
        ({"finish_reason": "stop", "stop_reason": "So,"}, {}, "stop"),
        ({"finish_reason": "stop", "stop_reason": 151645}, {}, "eos"),
        ({"finish_reason": "stop", "matched_stop": "So,"}, {}, "stop"),
        ({"finish_reason": "stop", "matched_stop": 2}, {}, "eos"),
        ({"finish_reason": "stop"}, {"__verbose": {"stop_type": "word"}}, "stop"),
        ({"finish_reason": "stop"}, {"__verbose": {"stop_type": "eos"}}, "eos"),
        ({"finish_reason": "stop", "text": "Then So,"}, {}, "stop"),
        ({"finish_reason": "stop", "text": "Then"}, {}, "eos"),
    ],
)
def test_every_servers_way_to_say_why_it_stopped(choice, extra, ended):
    assert read_reply({"choices": [choice], **extra}, ["So,"]).ended == ended


def test_ids_and_times_of_vllm_and_llama_cpp():
    vllm = read_reply(
        {
            "choices": [{"text": "a", "token_ids": [1, 2], "finish_reason": "length"}],
            "usage": {"completion_tokens": 2, "prompt_tokens": 5},
            "metrics": {
                "queue_time_ms": 1.0,
                "time_to_first_token_ms": 20.0,
                "generation_time_ms": 30.0,
            },
        }
    )
    llama = read_reply(
        {
            "choices": [{"text": "a", "finish_reason": "length"}],
            "__verbose": {"tokens": [3], "stop_type": "limit"},
            "timings": {"prompt_ms": 10.0, "predicted_ms": 5.0},
        }
    )

    assert (vllm.ids, vllm.n_tokens, vllm.n_prompt) == ((1, 2), 2, 5)
    assert vllm.server_s == pytest.approx(0.051)
    assert (llama.ids, llama.queue_s) == ((3,), 0.0)
    assert llama.server_s == pytest.approx(0.015)


@pytest.mark.parametrize("data", [{}, {"choices": []}, {"error": {"message": "overloaded"}}])
def test_a_reply_without_choices_is_unreadable(data):
    with pytest.raises(Unreadable):
        read_reply(data)


def test_sampling_has_each_servers_names_and_seeds_of_each_turn():
    warm = SamplingParams(temperature=0.7, top_k=0, repetition_penalty=1.2, seed=2**40)

    assert sampling_fields(VLLM, SamplingParams(), 0) == {
        "temperature": 0.0,
        "repetition_penalty": 1.0,
    }
    assert sampling_fields(LLAMA_CPP, warm, 0)["repeat_penalty"] == 1.2
    assert sampling_fields(SGLANG, warm, 0)["top_k"] == -1
    seeds = {sampling_fields(VLLM, warm, n)["seed"] for n in range(50)}
    assert len(seeds) == 50
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_a_body_is_json_with_the_prompt_as_it_was_joined():
    assert json.loads(encode({"model": "m"}, "[1, 2]")) == {"model": "m", "prompt": [1, 2]}


def test_costs_of_a_segments_turns_add_up():
    one = Wire(n_requests=1, ttft_s=0.1, e2e_s=0.5, server_s=0.4, changed_seams=1)
    untold = Wire(n_requests=1, ttft_s=0.2, e2e_s=0.5)

    both = (Timing(wire=one) + Timing(wire=one)).wire
    assert both == Wire(n_requests=2, ttft_s=0.1, e2e_s=1.0, server_s=0.8, changed_seams=2)
    assert (one + untold).server_s is None
    assert (Timing() + Timing(wire=one)).wire == one
