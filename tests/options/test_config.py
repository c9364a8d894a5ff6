"""Wrong options are refused before a model is loaded, and the message says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.options.config import RelayConfig, parse_config

KNOWN = {"dtype", "device", "revision", "peft", "trust_remote_code", "max_length"}


def parse(**options: Any) -> RelayConfig:
    return parse_config(options, KNOWN, Path("demo"))


def test_no_model_means_the_embedded_pair():
    config = parse()

    assert (config.pretrained, config.small) == ("demo/large", "demo/small")


def test_large_is_another_name_for_pretrained():
    assert parse(large="a/b", small="a/c").pretrained == "a/b"


def test_options_go_to_both_models_and_prefixed_ones_to_the_small():
    config = parse(dtype="float32", small_dtype="bfloat16", trust_remote_code=True)

    assert config.large_options == {"dtype": "float32", "trust_remote_code": True}
    assert config.small_options == {"dtype": "bfloat16", "trust_remote_code": True}


def test_what_names_a_thing_of_one_model_goes_to_the_large_alone():
    config = parse(revision="abc", peft="adapter", small_revision="def")

    assert config.large_options == {"revision": "abc", "peft": "adapter"}
    assert config.small_options == {"revision": "def"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"larg": "a/b"}, "unknown option 'larg'.*did you mean 'large'"),
        ({"polcy": "large"}, "did you mean 'policy'"),
        ({"small_dtpe": "x"}, "did you mean 'small_dtype'"),
        ({"nothing_like_it": 1}, "The relay's own: abilities, answer_by"),
        ({"pretrained": "a/b"}, "without small="),
        ({"small": "a/b"}, "without pretrained="),
        ({"pretrained": "a/b", "large": "a/b", "small": "a/c"}, "name the same model"),
        ({"pretrained": "./nowhere", "small": "a/b"}, "'./nowhere' does not exist"),
        ({"pretrained": "a/b", "small": "/no/such/folder"}, "'/no/such/folder' does not exist"),
        (
            {"policy": "larg"},
            "policy=larg is not one of relay, large, small, .*; did you mean 'large'",
        ),
        ({"answer_by": "both"}, "answer_by=both is not one of large, small"),
        ({"cue_match": "regex"}, "cue_match=regex is not one of"),
        ({"max_gen_toks": 100, "max_answer_toks": 100}, "leaves nothing of max_gen_toks=100"),
        ({"max_small_tokens": 0}, "max_small_tokens=0 must be a whole number of at least 1"),
        ({"max_gen_toks": "many"}, "max_gen_toks=many must be a whole number"),
        ({"batch_size": 0}, "batch_size=0 must be"),
        ({"batch_size": True}, "batch_size=True must be"),
        ({"min_large_tokens": -1}, "min_large_tokens=-1 must be"),
        ({"seed": "x"}, "seed=x must be a whole number"),
    ],
)
def test_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        parse(**options)


def test_large_alone_needs_no_small_model():
    assert parse(pretrained="a/b", policy="large").small is None


def test_automatic_batch_size_is_bounded():
    assert parse(batch_size="auto").n_rows == 16
    assert parse(batch_size="auto:4", max_batch_size=4).n_rows == 4
