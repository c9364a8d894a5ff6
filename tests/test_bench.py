"""`relaygen bench`: every contestant runs the same problems, and the figures are consistent."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from lm_eval.api.instance import Instance
from rich.console import Console

from relaygen_lmeval.bench.contestants import ASSISTED, HF, OURS
from relaygen_lmeval.bench.floor import Floor
from relaygen_lmeval.bench.replay import Replay, read_traces, replay_table, run_replay
from relaygen_lmeval.bench.run import Plan, run_bench
from relaygen_lmeval.bench.show import bench_table, draw
from relaygen_lmeval.core.timing import Drafts, Timing
from relaygen_lmeval.core.types import Phase, RelayRequest, RelayResult, Role, Segment
from relaygen_lmeval.engines.local.floor import BareForward
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.harness.model import RelayLM

from .engines import tiny


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return run_bench(
        Plan(n=3, batches=(1, 2), repeats=2, max_gen_toks=250, compiled=False, floor=False)
    )


@pytest.mark.slow
def test_every_contestant_and_figure(report):
    assert json.loads(json.dumps(report))["settings"]["n"] == 3
    for size, contestants in report["batches"].items():
        assert set(contestants) == {HF, *OURS} | ({ASSISTED} if size == 1 else set())
        assert contestants["large"]["share"] > 0.95  # the rest closes unfinished reasonings
        assert contestants["small"]["share"] == 0.0
        assert contestants[HF]["ratio"] == {"median": 1.0, "min": 1.0, "max": 1.0}
        for name in ("large", "large + lookup", "large + small drafts"):
            assert contestants[name]["same_text_as_hf"] == 3, name
        assert contestants["relay + small drafts"]["mean_accepted"] > 1.5
        for figures in contestants.values():
            assert figures["repeats_itself"]
            assert 0 <= figures["accuracy"] <= 1
            assert figures["wall_s"]["min"] <= figures["wall_s"]["median"]


def test_the_floor_counts_every_forward_a_text_needs(monkeypatch, pair):
    """A catch-up for every segment, a forward for every block of drafts and every other token."""
    cost = {
        (Role.LARGE, 1): 10.0,
        (Role.LARGE, 4): 16.0,
        (Role.SMALL, 1): 2.0,
        (Role.SMALL, 6): 5.0,
    }
    monkeypatch.setattr(Floor, "_forward_s", lambda self, role, n_rows, n: cost[role, n])
    drafts = Drafts(n_drafted=6, n_accepted=4, n_verified=2)
    segments = (
        segment(Role.LARGE, n_tokens=9, timing=Timing(catch_up_tokens=4, drafts=drafts)),
        segment(Role.SMALL, n_tokens=5, timing=Timing(catch_up_tokens=6)),
    )
    result = RelayResult(RelayRequest(0, {}, 20), "", "", segments, "eos")

    # Large: 16 to catch up and verify the first block, 16 for the second, of 1 + 3, 3 tokens more
    # at 10, 6 drafts at 2. Small: 5 to catch up, 4 tokens more at 2.
    large, small = 16 + 16 + 3 * 10 + 6 * 2, 5 + 4 * 2
    assert Floor(pair).of([result], 1) == large + small
    assert Floor(pair).of([result, result], 2) == large + small


@pytest.mark.slow
def test_a_bare_forward_takes_time():
    forward = BareForward(tiny.qwen3(64, num_hidden_layers=1), n_rows=2, n_tokens=3)

    assert 0 < forward.time_s() < 1


def segment(role: Role, *, n_tokens: int, timing: Timing) -> Segment:
    return Segment(role, Phase.REASONING, "", (), n_tokens, "eos", None, timing)


@pytest.mark.slow
def test_the_table_and_the_picture(report, tmp_path):
    pytest.importorskip("matplotlib")
    shown = StringIO()
    Console(file=shown, width=140).print(bench_table(report))
    draw(report, tmp_path / "bench.png")

    assert "relay + small drafts" in shown.getvalue()
    assert (tmp_path / "bench.png").stat().st_size > 10_000


def test_a_pair_is_needed():
    with pytest.raises(ConfigError, match="name small= too"):
        run_bench(Plan("pretrained=a/b,policy=large"))


SHAPE = {
    "model_type": "qwen3",
    "vocab_size": 97,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "intermediate_size": 48,
}


@pytest.fixture
def replay(tmp_path) -> Replay:
    """Two shapes, and the journal of a real relay."""
    options = {"log_dir": str(tmp_path / "log"), "batch_size": 2, "max_gen_toks": 120}
    lm = RelayLM(**options)
    requests = [
        Instance("generate_until", {}, (f"{i} and {i}?", {"until": []}), i, ("t", i, 1))
        for i in range(3)
    ]
    lm.generate_until(requests)
    lm.close()
    for name, layers in (("large", 2), ("small", 1)):
        (tmp_path / f"{name}.json").write_text(json.dumps({**SHAPE, "num_hidden_layers": layers}))
    return Replay(
        tmp_path / "large.json",
        tmp_path / "small.json",
        tmp_path / "log" / "journal.jsonl",
        batches=(1, 2),
        repeats=1,
        compiled=False,
    )


def test_random_weights_of_a_shape_replay_a_journal(replay):
    traces = read_traces(replay.journal, 2)
    report = run_replay(replace(replay, n=2))

    assert len(traces) == 2
    assert report["settings"]["n_tokens"] == sum(n for t in traces for _, n in t.turns)
    assert report["settings"]["parameters"]["large"] > report["settings"]["parameters"]["small"]
    assert set(report["batches"]) == {1, 2}
    assert all(f["ratio"]["median"] > 0 for f in report["batches"].values())
    shown = StringIO()
    Console(file=shown, width=120).print(replay_table(report))
    assert "relay over large" in shown.getvalue()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dtype": "int3"}, "dtype=int3 is not one of"),
        ({"shape": "nowhere.json"}, "no model can be made of shape nowhere.json"),
    ],
)
def test_what_cannot_be_replayed_is_refused(replay, change, said):
    with pytest.raises(ConfigError, match=said):
        run_replay(replace(replay, **change))
