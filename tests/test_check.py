"""`relaygen check`: a line for everything a run needs, and what to do where it would fail."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from relaygen_lmeval.check.findings import look
from relaygen_lmeval.cli import app
from relaygen_lmeval.demo import demo_path
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.memory.plan import ModelSize, check_fits, longest_batch

LARGE, SMALL = demo_path() / "large", demo_path() / "small"
NAMES = ["options", "log folder", "cues", "models", "tokenizers", "policy", "thinking", "memory"]


def check(model_args: str, *more: str) -> Any:
    return CliRunner().invoke(app, ["check", "--model_args", model_args, *more])


def last(result: Any) -> str:
    return str(result.output.strip().splitlines()[-1])


def test_the_embedded_pair_is_well():
    result = check("", "--batch_size", "16")

    assert result.exit_code == 0, result.output
    lines = result.output.strip().splitlines()
    assert [line[5:18].strip() for line in lines] == [*NAMES, "large model", "small model"]
    assert all(line.startswith("ok ") for line in lines)
    assert "16 requests at once" in lines[0]
    assert "equal: token ids are handed over" in lines[4]
    assert "10 tokens in" in lines[-1]


# Each is wrong in one way, and is refused with what came, what was wanted or what to do.
BAD = {
    "polcy=large": "did you mean 'policy'",
    "policy=larg": "did you mean 'large'",
    "policy=nowhere.at_all:Policy": "cannot be imported",
    "cues=dmo": "did you mean 'demo'",
    "cues=/no/such/file.json": "neither a path nor the name",
    "cue_match=regex": "is not one of word, substring",
    "pretrained=./nowhere,small=./nowhere": "'./nowhere' does not exist",
    f"pretrained={LARGE}": "without small=",
    f"small={SMALL}": "without pretrained=",
    f"pretrained={demo_path()},small={SMALL}": "has no readable configuration",
    "max_gen_toks=0": "must be a whole number of at least 1",
    "max_gen_toks=100,max_answer_toks=100": "leaves nothing of max_gen_toks=100",
    "max_gen_toks=10,max_answer_toks=9": "leave nothing for it",
    "seed=-1": "seed=-1 must be",
    "answer_by=both": "is not one of large, small",
    "speculative=yes": "is not one of off, small, lookup",
    "speculative=small,policy=small": "which policy=small never asks",
    "speculative=small,small_threads=2": "goes not with speculative=small",
    "compile=maybe": "is not one of auto, on, off",
    "engine=cloud": "is not one of local, server, vllm",
    "engine=server": "needs base_url=",
    "engine=server,base_url=nonsense,small_base_url=nonsense,max_retries=0": "base_url=nonsense is no address",
    "engine=server,base_url=http://127.0.0.1:9,small_base_url=http://127.0.0.1:9,max_retries=0": (
        "server http://127.0.0.1:9"
    ),
    "base_url=http://127.0.0.1:9": "is for engine=server",
    "threads=0": "threads=0 must be",
    "log_dir=/proc/nothing": "choose another folder",
    "resume=/no/such/run": "holds no journal",
    "resume=auto": "needs log_dir=",
    "dtype=float33": "could not be loaded",
    "timeout=soon": "must be a number of seconds",
}


@pytest.mark.parametrize("model_args", BAD)
def test_bad_input_is_named_with_what_to_do_and_no_traceback(model_args):
    result = check(model_args)

    assert result.exit_code == 1, (result.output, result.exception)
    failed = [line for line in result.output.splitlines() if line.startswith("fail ")]
    assert len(failed) == 1
    assert BAD[model_args] in failed[0]
    assert "Traceback" not in result.output


@pytest.mark.parametrize("batch_size", ["0", "-2", "some"])
def test_bad_batch_sizes(batch_size):
    result = check("", "--batch_size", batch_size)

    assert result.exit_code == 1
    assert f"batch_size={batch_size} must be" in last(result)


def test_the_plan_counts_the_rows_that_fit_beside_each_other():
    large = ModelSize("large", "cuda:0", 64_000_000_000, 262_144)
    small = ModelSize("small", "cuda:0", 3_400_000_000, 114_688)
    free = {"cuda:0": 70_000_000_000}

    fits = longest_batch([large, small], 32_768, free)

    assert fits == 70_000_000_000 // (32_768 * (262_144 + 114_688)) == 5
    check_fits([large, small], fits, 32_768, free)
    with pytest.raises(ConfigError, match=r"16 requests of up to 32,768 .* 64 GB.*--batch_size 5"):
        check_fits([large, small], 16, 32_768, free)
    with pytest.raises(ConfigError, match="smaller max_gen_toks"):
        check_fits([large, small], 1, 10_000_000, free)


def test_a_batch_that_cannot_fit_is_refused_before_the_first_token(make_relay, monkeypatch):
    relay = make_relay(batch_size=16)
    request = relay.requests.make(0, "Q", max_tokens=300)
    monkeypatch.setattr("relaygen_lmeval.relay.free_bytes", lambda sizes: {"cpu": 5_000_000})

    with pytest.raises(ConfigError, match=r"16 requests of up to .* do not fit .*--batch_size \d"):
        relay.run([request])


def test_the_sizes_are_those_of_the_storage(make_relay, pair):
    from relaygen_lmeval.engines.local.cache import BLOCK
    from relaygen_lmeval.memory.models import sizes_of

    relay = make_relay(batch_size=2)
    sizes = sizes_of(pair, relay.policy.roles)
    relay.generate(["Tom has 2 pens."], max_tokens=80)

    used = [relay._engines[role].kv_bytes for role in relay.policy.roles]
    a_token = {size.role: size.kv_per_token for size in sizes}
    longest = pair.large.max_length + BLOCK
    assert sorted(used) == sorted(2 * longest * a_token[role] for role in relay.policy.roles)


def test_what_may_be_wrong_is_a_note(caplog):
    found = {f.name: f for f in look({"cues": "qwen3-32b__qwen3-1.7b", "max_gen_toks": 9000})}

    assert found["thinking"].state == "note"
    assert "does not fit into max_length" in found["thinking"].text
