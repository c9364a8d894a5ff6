"""Speculation changes no greedy text, keeps the sampled distribution, and cuts where plain would."""

from __future__ import annotations

import os
import random
import threading
from dataclasses import replace
from typing import Any

import pytest
import torch
from scipy.stats import chisquare

from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.types import RelayResult, Role, SamplingParams
from relaygen_lmeval.engines.local.drafts import _draw
from relaygen_lmeval.engines.local.sampling import Draw, odds
from relaygen_lmeval.engines.local.verify import Draft, verify
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.models.lanes import _compiles, local_engines
from relaygen_lmeval.models.pair import Pair
from relaygen_lmeval.options.config import RelayConfig
from relaygen_lmeval.relay import Relay

from . import tiny

MAX_TOKENS = 300
KINDS = ("small", "lookup")
# Every problem with every number of drafts, at batch 8 and 1: most of an hour.
WHOLE = "RELAYGEN_TEST_WHOLE" in os.environ


def parts(results: list[RelayResult]) -> list[Any]:
    """All that speculation must leave as it is: who wrote what, and why it ended."""
    return [
        (
            r.text,
            r.finish,
            r.flags,
            [(s.role, s.token_ids, s.ended_by, s.matched) for s in r.segments],
        )
        for r in results
    ]


def drafted(results: list[RelayResult]) -> tuple[int, int]:
    drafts = [s.timing.drafts for r in results for s in r.segments if s.timing.drafts]
    return sum(d.n_drafted for d in drafts), sum(d.n_accepted for d in drafts)


@pytest.fixture(scope="module")
def plain(pair: Pair, questions: list[str]) -> dict[str, list[Any]]:
    """The 100 problems without speculation, by policy."""
    from relaygen_lmeval.options.policy_choice import load_cues
    from relaygen_lmeval.relay import parse_options

    out = {}
    for policy in ("large", "relay"):
        config = parse_options({"policy": policy, "batch_size": 16})
        relay = Relay(config, pair, load_cues(config))
        out[policy] = parts(relay.generate(questions, max_tokens=MAX_TOKENS))
        relay.close()
    return out


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["large", "relay"])
@pytest.mark.parametrize("kind", KINDS)
def test_greedy_text_stays_the_same(make_relay, questions, plain, policy, kind):
    """Each number of drafts on problems of its own, 100 in all; one of each at batch 1."""
    for most in range(1, 9):
        chosen = slice(12 * (most - 1), 12 * most + 4 * (most == 8))
        chosen = slice(0, 100) if WHOLE else chosen
        options = {"policy": policy, "speculative": kind, "num_draft_tokens": most}
        batched = make_relay(batch_size=8, **options)
        results = batched.generate(questions[chosen], max_tokens=MAX_TOKENS)
        assert parts(results) == plain[policy][chosen], most
        assert drafted(results)[0] > 0
        alone = make_relay(batch_size=1, **options)
        first = chosen if WHOLE else slice(chosen.start, chosen.start + 1)
        assert (
            parts(alone.generate(questions[first], max_tokens=MAX_TOKENS)) == plain[policy][first]
        )


@pytest.mark.slow
def test_a_draft_model_equal_to_the_target_is_always_right(make_relay, same_pair, questions):
    relay = make_relay(same_pair, policy="large", speculative="small", batch_size=8)

    n_drafted, n_accepted = drafted(relay.generate(questions[:16], max_tokens=MAX_TOKENS))

    assert n_drafted > 500
    # But for those beyond the end of a text, and ties of two batch shapes.
    assert n_accepted >= n_drafted - 16 * 5


@pytest.mark.slow
def test_a_cue_at_any_place_of_an_accepted_block_cuts_where_plain_does(make_relay, pair, questions):
    """Every word of a text is made the only cue in turn."""
    text = make_relay(policy="large").generate(questions[:1], max_tokens=80)[0].text
    words = sorted({word.strip(".,?") for word in text.split()} - {""})
    places = set()
    for word in words:
        cues = CueTable((word,), "substring")
        results = {}
        for kind in ("off", "small"):
            relay = make_relay(speculative=kind, num_draft_tokens=8, min_large_tokens=0)
            relay.policy = replace(relay.policy, cues=cues)
            results[kind] = relay.generate(questions[:1], max_tokens=80)
        assert parts(results["off"]) == parts(results["small"]), word
        places |= {s.n_tokens % 9 for s in results["small"][0].segments if s.ended_by == "cue"}
    assert len(places) == 9


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_stop_strings_and_budgets_cut_where_plain_does(make_relay, questions, kind):
    plain = make_relay(policy="large", batch_size=4)
    drafting = make_relay(policy="large", batch_size=4, speculative=kind, num_draft_tokens=8)
    for most in (*range(6, 16), 60, 150):
        for until in ((), ("}",), (" is",)):
            both = [
                parts(r.generate(questions[:4], max_tokens=most, until=until))
                for r in (plain, drafting)
            ]
            assert both[0] == both[1], (most, until)


@pytest.mark.slow
def test_nothing_past_the_cut_stays_in_the_cache(make_relay, questions):
    relay = make_relay(speculative="small", num_draft_tokens=8, batch_size=4)
    seen = []
    lane = relay._engines[Role.LARGE]._lane
    take = lane.take

    def watched(turn):
        row = take(turn)
        known = row.track.cached
        assert row.track.ids[: len(known)] == known
        seen.append(len(known))
        return row

    lane.take = watched
    relay.generate(questions[:8], max_tokens=MAX_TOKENS)

    assert sum(n > 0 for n in seen) > 20


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_sampled_run_repeats_itself_at_any_batch_size(make_relay, questions, kind):
    sampling = SamplingParams(temperature=0.8, top_p=0.95, top_k=20, seed=3)
    written = [
        parts(
            make_relay(batch_size=size, speculative=kind).generate(
                questions[:10], max_tokens=120, sampling=sampling
            )
        )
        for size in (1, 5)
    ]
    assert written[0] == written[1]


@pytest.mark.slow
def test_lookup_changes_no_sampled_text(make_relay, questions):
    """A certain draft is kept just where the target draws the same token anyway."""
    sampling = SamplingParams(temperature=1.0, seed=5)
    written = [
        parts(
            make_relay(policy="large", batch_size=8, speculative=kind).generate(
                questions[:16], max_tokens=120, sampling=sampling
            )
        )
        for kind in ("off", "lookup")
    ]
    assert written[0] == written[1]


@pytest.mark.slow
def test_a_repetition_penalty_counts_the_drafts_before(make_relay, questions):
    sampling = SamplingParams(repetition_penalty=1.3)
    written = [
        parts(
            make_relay(policy="large", batch_size=4, speculative=kind).generate(
                questions[:8], max_tokens=80, sampling=sampling
            )
        )
        for kind in ("off", *KINDS)
    ]
    assert written[0] == written[1] == written[2]


N_DRAWS = 20_000
FALSE_ALARM = 1e-4  # of each of the tests below, were the distribution right


@pytest.mark.slow
@pytest.mark.parametrize(
    "sampling",
    [SamplingParams(temperature=1.0), SamplingParams(temperature=0.7, top_p=0.9, top_k=5)],
)
def test_the_first_two_tokens_follow_the_targets_distribution(sampling):
    """Chi-square over 20,000 draws, the draft model quite another than the target."""
    torch.manual_seed(0)
    vocab = 8
    target, small = torch.randn(vocab, 2, vocab) * 1.5, torch.randn(2, vocab) * 1.5
    counts = torch.zeros(vocab, vocab)
    for seed in range(N_DRAWS):
        draw = Draw(replace(sampling, seed=seed), (), 0)
        first = _draw(small[:1], [draw])[0]
        assert first.odds is not None
        # What follows depends on the first token, as in a real text.
        logits = torch.stack([target[0, 0], target[first.token, 1]])
        tokens = verify(logits[None], [Draft([first.token], [first.odds])], [draw])[0]
        if len(tokens) == 1:
            after = draw.after(tokens)
            tokens += verify(target[tokens[0], 1][None, None], [Draft([], [])], [after])[0]
        counts[tokens[0], tokens[1]] += 1

    anywhere = Draw(sampling, (), 0)
    expected = odds(target[0, 0], anywhere)[:, None] * torch.stack(
        [odds(target[token, 1], anywhere) for token in range(vocab)]
    )
    possible = expected > 0
    assert counts[~possible].sum() == 0
    found = chisquare(counts[possible].numpy(), (expected[possible] * N_DRAWS).numpy())
    assert found.pvalue > FALSE_ALARM


def test_the_test_above_would_notice_a_draft_that_is_always_kept():
    torch.manual_seed(0)
    target, small = torch.randn(8) * 1.5, torch.randn(8) * 1.5
    counts = torch.zeros(8)
    for seed in range(2000):
        draw = Draw(SamplingParams(temperature=1.0, seed=seed), (), 0)
        counts[_draw(small[None], [draw])[0].token] += 1
    expected = odds(target, Draw(SamplingParams(temperature=1.0), (), 0)) * 2000

    assert chisquare(counts.numpy(), expected.numpy()).pvalue < FALSE_ALARM


def test_logits_that_are_not_finite_are_named_wherever_they_stand():
    logits = torch.randn(1, 4, 8)
    best = logits.argmax(-1)[0].tolist()
    logits[0, 2] = float("nan")
    draw = Draw(SamplingParams(), (), 0)

    assert verify(logits, [Draft(best[:3], [])], [draw]) == [[*best[:2], -1]]


def test_a_model_whose_cache_cannot_be_cut_is_refused(make_relay, pair):
    class Windowed:
        model = tiny.gemma3(512)
        tokenizer = pair.large.tokenizer
        device = torch.device("cpu")

    relay = make_relay(speculative="lookup", policy="large")
    windowed = Pair(Windowed(), pair.small, shares_ids=True)

    with pytest.raises(ConfigError, match="cannot be cut: set speculative=off"):
        local_engines(relay.config, windowed, {Role.LARGE})


def test_two_tokenizers_can_draft_from_the_text_alone(make_relay, pair, questions):
    apart = Pair(pair.large, pair.small, shares_ids=False)

    with pytest.raises(ConfigError, match="different tokenizers"):
        make_relay(apart, speculative="small")
    plain, drafting = (
        parts(make_relay(apart, speculative=kind).generate(questions[:3], max_tokens=150))
        for kind in ("off", "lookup")
    )
    assert plain == drafting


@pytest.mark.slow
def test_two_models_on_threads_of_their_own_write_the_same(make_relay, questions, plain):
    """Both lanes step at once, each where its own number of threads is set."""
    relay = make_relay(threads=1, small_threads=2, batch_size=8)
    seen: dict[Role, set[tuple[int, int]]] = {role: set() for role in Role}
    for role, engine in relay._engines.items():
        _note_threads(engine._lane, seen[role])
    chosen = random.Random(0).sample(range(100), 16)

    results = relay.generate([questions[i] for i in chosen], max_tokens=MAX_TOKENS)

    assert parts(results) == [plain["relay"][i] for i in chosen]
    assert [{n for _, n in seen[role]} for role in Role] == [{1}, {2}]
    assert len({thread for role in Role for thread, _ in seen[role]}) == 2


def test_threads_of_one_lane_alone_are_set_too(make_relay, questions):
    relay = make_relay(policy="large", threads=2)
    seen: set[tuple[int, int]] = set()
    _note_threads(relay._engines[Role.LARGE]._lane, seen)

    relay.generate(questions[:1], max_tokens=20)

    assert {n for _, n in seen} == {2}


def _note_threads(lane: Any, seen: set[tuple[int, int]]) -> None:
    """Note the thread of every step, and how many its forwards may use."""
    step = lane.step

    def noted() -> Any:
        seen.add((threading.get_ident(), torch.get_num_threads()))
        return step()

    lane.step = noted


def test_small_threads_without_steps_of_their_own_are_refused(make_relay):
    with pytest.raises(ConfigError, match="small_threads=1 goes not with speculative=small"):
        make_relay(speculative="small", small_threads=1)


@pytest.mark.parametrize(
    ("asked", "device", "wanted"),
    [("auto", "cuda", True), ("auto", "cpu", False), ("on", "cpu", True), ("off", "cuda", False)],
)
def test_what_is_compiled_where(asked, device, wanted):
    config = RelayConfig("large", "small", compile=asked)

    assert _compiles(config, torch.device(device)) is wanted
