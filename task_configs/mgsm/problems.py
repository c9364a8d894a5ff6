"""Brings MGSM to the columns `problem` and `answer`; called through `!function`."""

from __future__ import annotations

from datasets import Dataset


def mgsm(docs: Dataset) -> Dataset:
    """The answer is a number; solutions exist for the examples alone."""
    return docs.map(
        lambda doc: {
            "problem": doc["question"],
            "solution": doc["answer"],
            "answer": str(doc["answer_number"]),
        }
    )
