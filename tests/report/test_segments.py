"""What segments amount to, against a computation by hand."""

from __future__ import annotations

import numpy as np
import pytest

from relaygen_lmeval.report.segments import (
    N_BINS,
    cue_use,
    lengths,
    share_along,
    time_spent,
)

from .conftest import request, segment


def test_times_add_up_to_the_mean_e2e():
    drafts = {"drafted": 4, "accepted": 2, "verified": 2, "draft_s": 0.03}
    with_drafts = request(
        1,
        e2e_s=0.5,
        segments=[
            segment("large", 4, "a", drafts=drafts),
            segment("small", 4, "b"),
            segment(None, 1, "c", decode_s=0.0, prefill_s=0.0, wait_s=0.0),
        ],
    )

    spent = time_spent([with_drafts, request(0, e2e_s=1.5)])

    assert sum(spent.values()) == pytest.approx(1.0)
    assert spent["draft"] == pytest.approx(0.03 / 2)
    assert spent["verify"] == pytest.approx(0.07 / 2)
    assert spent["large decode"] == pytest.approx(0.1 / 2)
    assert spent["small decode"] == pytest.approx(0.4 / 2)
    assert spent["catch-up"] == pytest.approx(6 * 0.02 / 2)
    assert spent["waiting"] == pytest.approx(6 * 0.01 / 2)


def test_share_along_the_reasoning_leaves_the_answer_out():
    half = request(
        0,
        segments=[
            segment("large", N_BINS, "a"),
            segment("small", N_BINS, "b"),
            segment("large", 99, "c", phase="answer"),
        ],
    )

    share = share_along([half, half])

    np.testing.assert_array_equal(share, [1.0] * (N_BINS // 2) + [0.0] * (N_BINS // 2))


def test_a_short_reasoning_leaves_bins_empty():
    share = share_along([request(0, segments=[segment("large", 1, "a")])])

    assert share[0] == 1.0
    assert np.isnan(share[1:]).all()
    assert np.isnan(share_along([])).all()


def test_lengths_are_those_of_one_model_in_the_reasoning():
    assert lengths([request(0), request(1)], "small") == [3, 1, 3, 1]


def test_cues_are_counted_with_what_came_after():
    wrong = request(1)
    wrong["segments"][1] = segment("small", 9, "x", ended_by="bound")
    once_more = [*request(2)["segments"][:2], *request(2)["segments"]]

    so = cue_use([(request(0), 1.0), (wrong, 0.0), (request(2, segments=once_more), None)])[0]

    assert (so.cue, so.fired, so.n_texts) == ("So,", 4, 3)
    assert so.n_tokens == (3 + 9 + 3 + 3) / 4
    assert so.to_boundary == 3 / 4
    assert so.correct == 0.5
    assert cue_use([]) == []
