"""Times of a request against a computation by hand."""

from __future__ import annotations

from relaygen_lmeval.core.latency import latency


def test_one_token():
    times = latency(1.0, [1.25], 1.5)

    assert (times.ttft_s, times.itl_s, times.tpot_s, times.e2e_s) == (0.25, 0.0, 0.0, 0.5)


def test_no_token():
    assert latency(1.0, [], 1.5).ttft_s == 0.5


def test_gaps():
    times = latency(0.0, [1.0, 1.5, 2.5, 2.75], 3.0)

    assert times.itl_s == 0.5
    assert times.itl_max_s == 1.0
    assert times.tpot_s == 2.0 / 3
