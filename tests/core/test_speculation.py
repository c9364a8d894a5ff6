"""Which drafts are kept, how many are made, and what the text itself proposes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from relaygen_lmeval.core.speculation import Lookup, accept_drafts, accept_sampled, next_length

ids = st.lists(st.integers(0, 3), max_size=30)


@given(ids, ids)
def test_accepted_drafts_are_what_both_begin_with(drafts, choices):
    n = accept_drafts(drafts, choices)

    assert drafts[:n] == choices[:n]
    assert n == min(len(drafts), len(choices)) or drafts[n] != choices[n]


def test_a_token_the_target_likes_more_is_always_kept():
    assert all(accept_sampled(0.3, 0.2, mark / 100) for mark in range(100))


def test_a_token_is_kept_as_often_as_the_target_likes_it_less():
    assert sum(accept_sampled(0.1, 0.4, mark / 1000) for mark in range(1000)) == 250


def test_a_token_the_target_never_writes_is_never_kept():
    assert not any(accept_sampled(0.0, 0.4, mark / 1000) for mark in range(1000))


@given(st.integers(1, 8), st.data())
def test_the_number_of_drafts_stays_within_its_bounds(most, data):
    n = most
    for _ in range(20):
        n = next_length(n, data.draw(st.integers(0, n)), most)
        assert 1 <= n <= most


@given(st.lists(ids, max_size=8), st.integers(1, 6))
def test_what_is_looked_up_has_been_in_the_text_after_the_same_tokens(texts, most):
    """Also when the text was cut back and went on otherwise."""
    lookup = Lookup()
    for text in texts:
        lookup.read(text)
        draft = lookup.draft(most)
        assert len(draft) <= most
        if draft:
            joined = ",".join(map(str, text))
            assert ",".join(map(str, draft)) in joined


@given(ids, st.integers(2, 6))
def test_a_text_that_repeats_is_foreseen(period, most):
    if len(set(period)) < 3:
        return
    lookup = Lookup()
    lookup.read(period * 3)

    draft = lookup.draft(most)

    assert draft
