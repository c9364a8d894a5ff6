r"""Brings the data sets of the reasoning tasks to the same columns: `problem` and `answer`.

Called by lm-evaluation-harness through `!function`; scoring is `relaygen_lmeval.scoring`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from datasets import Dataset

Doc = Mapping[str, Any]
LETTERS = "ABCD"
GPQA_SEED = 1234  # with the question's own text: the order does not hang on the other questions


def shot(doc: Doc) -> str:
    r"""Write an example's answer as the task asks for it.

    Examples:
        >>> shot({"problem": "What is 3 + 4?", "solution": "Add them.", "answer": "7"})
        'Add them.\n\n\\boxed{7}'
    """
    boxed = rf"\boxed{{{doc['answer']}}}"
    solution = str(doc.get("solution") or "").strip()
    return solution if boxed in solution else f"{solution}\n\n{boxed}".strip()


def gsm8k(docs: Dataset) -> Dataset:
    """The answer stands behind `####`."""
    return docs.map(_gsm8k)


def aime24(docs: Dataset) -> Dataset:
    """Columns are capitalised, and the answer is a number."""
    return docs.map(
        lambda doc: {
            "problem": doc["Problem"],
            "solution": doc.get("Solution", ""),
            "answer": str(doc["Answer"]),
        }
    )


def amc23(docs: Dataset) -> Dataset:
    """The problem is called question."""
    return docs.map(lambda doc: {"problem": doc["question"], "answer": str(doc["answer"])})


def gpqa(docs: Dataset) -> Dataset:
    """Four options in an order of their own, and the letter of the right one."""
    return docs.map(_gpqa)


def _gsm8k(doc: Doc) -> dict[str, str]:
    solution, _, answer = doc["answer"].rpartition("####")
    return {
        "problem": doc["question"],
        "solution": solution.strip(),
        "answer": answer.strip().replace(",", ""),
    }


def _gpqa(doc: Doc) -> dict[str, Any]:
    right, *wrong = (
        str(doc[name]).strip()
        for name in (
            "Correct Answer",
            "Incorrect Answer 1",
            "Incorrect Answer 2",
            "Incorrect Answer 3",
        )
    )
    question = str(doc["Question"]).strip()
    options = [right, *wrong]
    order = list(range(len(options)))
    random.Random(f"{GPQA_SEED}/{question}").shuffle(order)
    choices = [options[i] for i in order]
    listed = "\n".join(
        f"({letter}) {choice}" for letter, choice in zip(LETTERS, choices, strict=True)
    )
    return {
        "problem": f"{question}\n\n{listed}",
        "choices": choices,
        "answer": LETTERS[order.index(0)],
    }
