"""The rows in the harness's table against computations of their own kind."""

from __future__ import annotations

import lm_eval.evaluator
import numpy as np
import pytest

from relaygen_lmeval.harness.results_table import add_rows, show_rows
from relaygen_lmeval.report.rows import clustered_ratio, rows_by_task


def record(task: str, doc_id: int, e2e_s: float, n_large: int, n: int) -> dict[str, object]:
    return {
        "task": task,
        "doc_id": doc_id,
        "e2e_s": e2e_s,
        "n_large_tokens": n_large,
        "n_tokens": n,
    }


def test_the_error_of_a_mean_is_that_of_the_documents_means():
    rng = np.random.default_rng(0)
    values = rng.exponential(size=(30, 4)) + rng.normal(size=(30, 1))

    row = clustered_ratio(values.ravel(), np.ones(120), np.repeat(np.arange(30), 4))

    means = values.mean(axis=1)
    assert row is not None
    assert row.value == pytest.approx(values.mean())
    assert row.stderr == pytest.approx(means.std(ddof=1) / np.sqrt(30))


def test_the_error_of_a_share_is_the_bootstraps_over_documents():
    """Documents drawn whole, 4,000 times; both are estimates: they agree to a tenth."""
    rng = np.random.default_rng(1)
    n = rng.integers(50, 400, size=(80, 4))
    large = rng.binomial(n, rng.uniform(0.2, 0.6, size=(80, 1)))

    row = clustered_ratio(large.ravel(), n.ravel(), np.repeat(np.arange(80), 4))

    drawn = rng.integers(80, size=(4000, 80))
    shares = large.sum(axis=1)[drawn].sum(axis=1) / n.sum(axis=1)[drawn].sum(axis=1)
    assert row is not None
    assert row.value == pytest.approx(large.sum() / n.sum())
    assert row.stderr == pytest.approx(shares.std(), rel=0.1)


def test_tasks_are_kept_apart_and_one_document_has_no_error():
    rows = rows_by_task(
        [record("a", 0, 1.0, 10, 20), record("a", 0, 3.0, 0, 20), record("b", 0, 5.0, 0, 0)]
    )

    assert rows["a"]["e2e_s"] == (2.0, None)
    assert rows["a"]["large_share"] == (0.25, None)
    assert rows["a"]["tokens"] == (20.0, None)
    assert set(rows["b"]) == {"e2e_s", "tokens"}  # nothing was generated: no share


def test_rows_are_written_as_the_harness_writes_metrics():
    results = {
        "results": {"a": {"alias": "a", "acc,none": 1.0}},
        "higher_is_better": {"a": {"acc": True}},
    }
    add_rows(results, rows_by_task([record("a", 0, 1.0, 1, 2), record("gone", 0, 1.0, 1, 2)]))

    assert results["results"] == {
        "a": {
            "alias": "a",
            "acc,none": 1.0,
            "e2e_s,none": 1.0,
            "e2e_s_stderr,none": "N/A",
            "large_share,none": 0.5,
            "large_share_stderr,none": "N/A",
            "tokens,none": 2.0,
            "tokens_stderr,none": "N/A",
        }
    }
    assert results["higher_is_better"] == {"a": {"acc": True, "e2e_s": False}}


class Rank:
    """One process of a run over two; what the other one did comes with the merge."""

    def __init__(self, rank: int, others: list[dict[str, object]]) -> None:
        self.rank, self._others = rank, others
        self.relay_records: list[dict[str, object]] = []

    def merge_records(self) -> None:
        if self.rank == 0:
            self.relay_records += self._others


@pytest.mark.parametrize("rank", [0, 1])
def test_rows_are_over_the_records_of_all_processes(monkeypatch, rank):
    lm = Rank(rank, [record("a", 1, 3.0, 1, 2)])
    lm.relay_records.append(record("a", 9, 100.0, 0, 2))  # of an earlier evaluation

    def evaluate(lm: Rank) -> dict[str, dict[str, dict[str, object]]] | None:
        lm.relay_records.append(record("a", 0, 1.0, 1, 2))
        return {"results": {"a": {}}} if lm.rank == 0 else None

    monkeypatch.setattr(lm_eval.evaluator, "evaluate", evaluate)
    show_rows()
    show_rows()  # once is enough
    results = lm_eval.evaluator.evaluate(lm)

    if rank:
        assert results is None
    else:
        assert results["results"]["a"]["e2e_s,none"] == 2.0
        assert results["results"]["a"]["e2e_s_stderr,none"] == 1.0


def test_another_models_results_stay_as_they_are(monkeypatch):
    monkeypatch.setattr(lm_eval.evaluator, "evaluate", lambda lm: {"results": {"a": {}}})
    show_rows()

    assert lm_eval.evaluator.evaluate(object()) == {"results": {"a": {}}}
