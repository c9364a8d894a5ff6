"""`relaygen bench`: every contestant runs the same problems, and the figures are consistent."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from rich.console import Console

from relaygen_lmeval.bench import HF, PLAIN, bench_table, run_bench
from relaygen_lmeval.errors import ConfigError


def test_every_contestant_and_figure():
    report = run_bench("", n=3, batches=[1, 2], repeats=2, max_gen_toks=250, compiled=False)

    assert json.loads(json.dumps(report))["settings"]["n"] == 3
    for contestants in report["batches"].values():
        assert set(contestants) == {HF, *PLAIN}
        assert contestants["large"]["share"] > 0.95  # the rest closes unfinished reasonings
        assert contestants["small"]["share"] == 0.0
        assert contestants[HF]["ratio"] == {"median": 1.0, "min": 1.0, "max": 1.0}
        for figures in contestants.values():
            assert figures["repeats_itself"]
            assert figures["wall_s"]["min"] <= figures["wall_s"]["median"]
    shown = StringIO()
    Console(file=shown, width=120).print(bench_table(report))
    assert "relay" in shown.getvalue()


def test_a_pair_is_needed():
    with pytest.raises(ConfigError, match="name small= too"):
        run_bench(
            "pretrained=a/b,policy=large",
            n=1,
            batches=[1],
            repeats=1,
            max_gen_toks=9,
            compiled=False,
        )
