"""The verifier ends what hangs, wherever it is asked from."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator

import pytest

from relaygen_lmeval.errors import RelayGenError
from relaygen_lmeval.scoring import verifier
from relaygen_lmeval.scoring.verifier import Verifier

# Python 3.12 warns of every fork beside a thread; ours is what the test is about.
pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)
HANGS = r"\sum_{k=1}^{10^{9}} \frac{1}{k^{3}+k+1}"  # math_verify evaluates it term by term


@pytest.fixture
def quick() -> Iterator[Verifier]:
    made = Verifier(limit_s=1.0)
    assert made.equal(r"\frac{1}{2}", "0.5")  # the worker is up
    yield made
    made.close()


def timed_verdict(asked: Verifier) -> tuple[bool, float, bool]:
    started_s = time.perf_counter()
    verdict = asked.equal("7", HANGS)
    return verdict, time.perf_counter() - started_s, asked.equal(r"\frac{1}{2}", "0.5")


def test_what_hangs_is_wrong_after_the_limit_and_the_next_question_is_answered(quick, caplog):
    verdict, took_s, next_one = timed_verdict(quick)

    assert not verdict
    assert 0.9 < took_s < 6
    assert next_one
    assert "could not be compared" in caplog.text


def test_the_limit_holds_in_a_thread(quick):
    """Where math_verify's own, a signal, raises."""
    seen: list[tuple[bool, float, bool]] = []
    thread = threading.Thread(target=lambda: seen.append(timed_verdict(quick)))
    thread.start()
    thread.join(timeout=30)

    [(verdict, took_s, next_one)] = seen
    assert not verdict
    assert took_s < 6
    assert next_one


def _ask_in_worker(results: multiprocessing.Queue) -> None:
    asked = Verifier(limit_s=1.0)
    asked.equal(r"\frac{1}{2}", "0.5")
    results.put(timed_verdict(asked))
    asked.close()


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_the_limit_holds_in_a_worker_process_that_may_have_no_children(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method}")
    context = multiprocessing.get_context(method)
    results = context.Queue()
    worker = context.Process(target=_ask_in_worker, args=(results,), daemon=True)
    worker.start()

    verdict, took_s, next_one = results.get(timeout=60)
    worker.join()
    assert not verdict
    assert took_s < 6
    assert next_one


def test_a_fork_asks_a_worker_of_its_own(quick):
    """Two processes on one pipe would read each other's verdicts."""
    if not hasattr(os, "fork"):
        pytest.skip("this system cannot fork")
    owner = quick._worker
    child = os.fork()
    if child == 0:
        other = quick.equal(r"\frac{1}{2}", "0.25") or quick._worker is owner
        os._exit(int(other))
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert quick._worker is owner
    assert quick.equal(r"\frac{1}{4}", "0.25")


def test_too_much_memory_is_wrong_too(quick):
    assert not quick.equal("7", r"9^{9^{9^{9}}}")
    assert quick.equal(r"\frac{1}{2}", "0.5")


@pytest.mark.parametrize(
    "answer", ["", "}{", r"\frac{", "\\", "a" * 10_000, "(" * 500, "\n\n", '"']
)
def test_what_is_no_mathematics_is_wrong(quick, answer):
    assert not quick.equal("7", answer)


def test_a_missing_verifier_is_said_in_one_line(monkeypatch):
    command = (*verifier._COMMAND[:1], "-c", "import math_verify_that_is_missing")
    monkeypatch.setattr(verifier, "_COMMAND", command)

    with pytest.raises(RelayGenError, match=r"math_verify.*No module named.*pip install") as error:
        Verifier().equal("7", "8")
    assert "\n" not in str(error.value)


def test_a_worker_that_complains_a_lot_is_still_heard(monkeypatch):
    """A pipe holds 64 KiB; warnings of thousands of answers are more."""
    code = """
import sys
print('"ready"', flush=True)
for line in sys.stdin:
    sys.stderr.write("w" * 200_000)
    print("true", flush=True)
"""
    monkeypatch.setattr(verifier, "_COMMAND", (*verifier._COMMAND[:1], "-c", code))
    asked = Verifier(limit_s=5.0)

    assert [asked.equal("7", str(i)) for i in range(8, 11)] == [True] * 3
    asked.close()
