"""Models that run out of memory or write NaN: fewer rows, then the one request, never the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

from relaygen_lmeval.core.types import RelayResult, SamplingParams
from relaygen_lmeval.engines.local.memory import is_out_of_memory
from relaygen_lmeval.errors import FailedRequests
from relaygen_lmeval.journal import Label, read_journal
from relaygen_lmeval.relay import Relay
from relaygen_lmeval.run import Run

N = 8
MAX_TOKENS = 60
SAMPLED = SamplingParams(temperature=0.8, seed=3)

Rule = Callable[[torch.Tensor], bool]


def no_memory() -> None:
    """Ask for more than there is; torch says so in its own words."""
    torch.empty(10**15)


@contextmanager
def hooked(model: Any, on_read: Callable[[torch.Tensor, Any], None]) -> Iterator[None]:
    """Within, `on_read` hears the ids `[n, q]` of every forward, and what came of it."""

    def hook(module: Any, args: Any, kwargs: Any, output: Any) -> None:
        on_read(kwargs["input_ids"], output)

    handle = model.register_forward_hook(hook, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def too_little_memory(model: Any, too_much: Rule) -> Iterator[list[int]]:
    """Within, forwards that are too much have no memory; gives the rows of those that had."""
    n_rows: list[int] = []

    def on_read(ids: torch.Tensor, output: Any) -> None:
        if too_much(ids):
            no_memory()
        n_rows.append(len(ids))

    with hooked(model, on_read):
        yield n_rows


def run(relay: Relay, questions: list[str], sampling: SamplingParams | None = None) -> Any:
    """Texts by request, and the error of those that failed."""
    texts: dict[int, str] = {}

    def keep(result: RelayResult) -> None:
        texts[result.request.seq_id] = result.text

    requests = [
        relay.requests.make(
            i,
            relay.requests.template(question),
            max_tokens=MAX_TOKENS,
            sampling=sampling or SamplingParams(),
        )
        for i, question in enumerate(questions)
    ]
    try:
        relay.run_each(requests, keep)
    except FailedRequests as error:
        return texts, error
    return texts, None


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (MemoryError(), True),
        (RuntimeError("shape mismatch in memory_efficient attention"), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_what_means_no_memory(error, wanted):
    assert is_out_of_memory(error) is wanted


def test_torch_on_a_cpu_says_it_in_words_that_are_known():
    with pytest.raises(RuntimeError) as caught:
        no_memory()

    assert is_out_of_memory(caught.value)


@pytest.mark.parametrize("speculative", ["off", "small"])
@pytest.mark.parametrize("sampling", [SamplingParams(), SAMPLED], ids=["greedy", "sampled"])
def test_with_memory_for_three_rows_the_batch_is_halved_and_no_text_changes(
    make_relay, pair, questions, sampling, speculative, caplog
):
    options = {"batch_size": N, "speculative": speculative}
    wanted, _ = run(make_relay(**options), questions[:N], sampling)

    with too_little_memory(pair.large.model, lambda ids: len(ids) > 3) as n_rows:
        texts, error = run(make_relay(**options), questions[:N], sampling)

    assert error is None
    assert texts == wanted
    assert max(n_rows) <= 3
    assert "no memory for 4 rows of the large model at once: it takes 2 from now on" in caplog.text


@pytest.mark.parametrize("role", ["large", "small"])
def test_a_request_too_large_for_memory_fails_alone_and_by_name(make_relay, pair, questions, role):
    questions = [*questions[:3], "Ana has 12 books. " * 40, *questions[3:7]]
    wanted, _ = run(make_relay(batch_size=N), questions)
    model = getattr(pair, role).model

    with too_little_memory(model, lambda ids: ids.shape[1] > 200) as n_rows:
        texts, error = run(make_relay(batch_size=N), questions)

    assert texts == {i: text for i, text in wanted.items() if i != 3}
    assert list(error.failed) == [3]
    said = f"request 3, {role} model: out of memory at .* tokens, alone .*; lower max_gen_toks"
    assert re.search(said, error.failed[3])
    assert max(n_rows) > 2  # the number of rows was not to blame


def test_a_run_with_a_failed_request_names_its_document_and_goes_on_there(
    make_relay, pair, questions, tmp_path
):
    relay = make_relay(batch_size=4, log_dir=str(tmp_path), resume="auto")
    requests = [relay.requests.make(i, questions[i], max_tokens=MAX_TOKENS) for i in range(4)]
    requests[2] = relay.requests.make(2, "Ana has 12 books. " * 40, max_tokens=MAX_TOKENS)
    labels = [Label("books", i) for i in range(4)]
    first = Run(relay, tmp_path, {"config": {}})

    with (
        too_little_memory(pair.small.model, lambda ids: ids.shape[1] > 200),
        too_little_memory(pair.large.model, lambda ids: ids.shape[1] > 200),
        pytest.raises(FailedRequests, match=r"1 of 4 requests failed: books 2; .*resume="),
    ):
        first.relay(requests, labels, quiet=True)
    first.journal.close()

    last = list(read_journal(first.journal.path))[-1]
    assert (last["kind"], last["task"], last["doc_id"]) == ("failure", "books", 2)
    again: list[int] = []
    second = Run(relay, tmp_path, {"config": {}})
    second.relay(requests, labels, lambda seq_id, record: again.append(seq_id), quiet=True)
    second.journal.close()
    assert again == [2]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("sampling", [SamplingParams(), SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("speculative", ["off", "small", "lookup"])
def test_logits_that_are_not_finite_fail_their_request_alone(
    make_relay, pair, questions, value, sampling, speculative
):
    options = {"batch_size": 4, "speculative": speculative}
    wanted, _ = run(make_relay(**options), questions[:4], sampling)
    marked = pair.large.tok_encode(questions[1])[-12:]

    def spoil(ids: torch.Tensor, output: Any) -> None:
        for row, row_ids in enumerate(ids.tolist()):
            if any(row_ids[i : i + 12] == marked for i in range(len(row_ids))):
                output.logits[row, :, 7] = value

    with hooked(pair.large.model, spoil):
        texts, error = run(make_relay(**options), questions[:4], sampling)

    assert texts == {i: text for i, text in wanted.items() if i != 1}
    assert list(error.failed) == [1]
    assert "request 1, large model: its logits are not finite" in error.failed[1]
    assert "float32" in error.failed[1]


@contextmanager
def nan_at(model: Any, token: int) -> Iterator[None]:
    """Within, the vector of one token is NaN, and so is all that is kept of a text with it."""

    def hook(module: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
        return output.masked_fill((args[0] == token)[..., None], float("nan"))

    handle = model.get_input_embeddings().register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.parametrize(
    ("broken", "policy", "speculative", "fails"),
    [
        ("large", "relay", "off", True),
        ("small", "relay", "off", True),
        ("large", "large", "small", True),
        ("small", "large", "small", False),
    ],
)
def test_nothing_that_is_not_finite_stays_for_the_next_requests(
    make_relay, pair, questions, broken, policy, speculative, fails
):
    """In storage that others get, nor beyond their length after rows have changed places."""
    options = {"batch_size": 3, "policy": policy, "speculative": speculative}
    (token,) = pair.large.tok_encode("Cora")
    named = [i for i, question in enumerate(questions[:30]) if "Cora" in question]
    wanted, _ = run(make_relay(**options), questions[:30])

    with nan_at(getattr(pair, broken).model, token):
        texts, error = run(make_relay(**options), questions[:30])

    assert 0 < len(named) < 5
    failed = named if fails else []
    assert (list(error.failed) if error else []) == failed
    assert texts == {i: text for i, text in wanted.items() if i not in failed}


@pytest.mark.parametrize("sampling", [SamplingParams(), SAMPLED], ids=["greedy", "sampled"])
def test_drafts_of_a_small_model_that_writes_nan_are_left_out(
    make_relay, pair, questions, sampling
):
    plain, _ = run(make_relay(policy="large"), questions[:2], sampling)

    def spoil(ids: torch.Tensor, output: Any) -> None:
        output.logits.fill_(float("nan"))

    with hooked(pair.small.model, spoil):
        texts, error = run(make_relay(policy="large", speculative="small"), questions[:2], sampling)

    assert error is None
    assert texts == plain


@pytest.mark.parametrize("special", [False, True])
def test_models_that_write_one_token_for_ever_are_bounded_and_flagged(
    make_relay, pair, questions, special
):
    """A special token is left out of texts, so that nothing is left of this answer."""
    tokenizer = pair.large.tokenizer
    ids = set(tokenizer.all_special_ids) - {tokenizer.eos_token_id}
    token = min(ids) if special else tokenizer.encode(" 7", add_special_tokens=False)[-1]

    def force(ids: torch.Tensor, output: Any) -> None:
        output.logits.fill_(-10.0)
        output.logits[..., token] = 10.0

    relay = make_relay(batch_size=2)
    request = relay.requests.make(0, relay.requests.template(questions[0]) + "<think>\n")
    request = replace(request, max_tokens=200, max_answer_tokens=60)
    with hooked(pair.large.model, force), hooked(pair.small.model, force):
        [result] = relay.run([request])

    assert result.n_tokens == 200
    assert result.flags == ("repeats", "reasoning_closed", "truncated")
    assert bool(result.answer.strip()) is not special
