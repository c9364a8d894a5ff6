"""What tells the texts of two runs apart in one cache."""

from __future__ import annotations

from typing import Any

import pytest

from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.harness.cache import check_sampling, separate
from relaygen_lmeval.journal.identity import identity

HEADER: dict[str, Any] = {
    "config": {"pretrained": "L", "small": "S", "log_dir": "a", "batch_size": 1, "seed": 1},
    "policy": "relay",
    "cues": {"name": "mine", "sha256": "1"},
    "models": [{"name": "L", "sha": "2", "dtype": "float32"}],
    "versions": {"torch": "2", "math-verify": "0.9"},
}


@pytest.mark.parametrize(
    "other",
    [
        {"policy": "large"},
        {"cues": {"name": "mine", "sha256": "2"}},
        {"models": [{"name": "L", "sha": "3", "dtype": "float32"}]},
        {"models": [{"name": "L", "sha": "2", "dtype": "bfloat16"}]},
        {"config": {**HEADER["config"], "small": "T"}},
        {"config": {**HEADER["config"], "max_small_tokens": 8}},
        {"versions": {**HEADER["versions"], "torch": "3"}},
    ],
)
def test_what_can_change_a_text_changes_the_name(other):
    assert identity({**HEADER, **other}) != identity(HEADER)


def test_what_cannot_does_not():
    config = {**HEADER["config"], "log_dir": "b", "batch_size": 8, "max_batch_size": 16}
    versions = {**HEADER["versions"], "math-verify": "1.0"}

    assert identity({**HEADER, "config": config, "versions": versions}) == identity(HEADER)


class Hook:
    def __init__(self, dbdict: Any) -> None:
        self.dbdict = dbdict


def test_no_cache_is_nothing_to_keep_apart():
    separate(Hook(None), "x")
    check_sampling(Hook(None), {}, {"do_sample": True, "temperature": 1.0})


def test_a_cache_of_another_kind_is_refused():
    with pytest.raises(ConfigError, match=r"keeps texts in dict.*run without --use_cache"):
        separate(Hook({}), "x")


@pytest.mark.parametrize(
    ("given", "resolved"),
    [
        ({"do_sample": True}, {"do_sample": True, "temperature": 0.6}),
        ({}, {"do_sample": False, "temperature": 0.0}),
        ({"temperature": 0.0}, {"do_sample": False, "temperature": 0.0}),
    ],
)
def test_sampling_that_the_harness_sees_and_greedy_pass(given, resolved):
    check_sampling(Hook({}), given, resolved)


def test_sampling_that_it_does_not_see_is_refused():
    resolved = {"do_sample": True, "temperature": 0.6}
    with pytest.raises(ConfigError, match=r"temperature=0.6 without do_sample=True"):
        check_sampling(Hook({}), {"temperature": 0.6}, resolved)
