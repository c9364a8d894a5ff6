r"""Functions of the arithmetic tasks, called by lm-evaluation-harness through `!function`.

Knows the harness's calling conventions, the demo problems and `\boxed{}`; knows no model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation

from datasets import Dataset

from relaygen_lmeval.demo import load_problems
from relaygen_lmeval.demo.problems import prompt

# One pair of braces may lie inside, as in \boxed{\text{12}}.
_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")


def load_test(**_: object) -> dict[str, Dataset]:
    """Give the test problems; the harness passes the task's metadata, which changes nothing."""
    return {"test": Dataset.from_list(load_problems("test"))}


def load_calibration(**_: object) -> dict[str, Dataset]:
    """Give the calibration problems."""
    return {"calibration": Dataset.from_list(load_problems("calibration"))}


def doc_to_text(doc: Mapping[str, str]) -> str:
    r"""Ask the question, and for the answer in `\boxed{}`."""
    return prompt(doc["question"])


def process_results(doc: Mapping[str, str], results: Sequence[str]) -> dict[str, float]:
    r"""Score one generation by its last complete `\boxed{}`.

    Examples:
        >>> process_results({"answer": "3.5"}, [r"First \boxed{4}. No: \boxed{\$3.50}"])
        {'exact_match': 1.0}
        >>> process_results({"answer": "3.5"}, ["It is 3.5"])
        {'exact_match': 0.0}
    """
    boxed = _BOXED.findall(results[0])
    return {"exact_match": float(bool(boxed) and _value(boxed[-1]) == _value(doc["answer"]))}


def _value(answer: str) -> Decimal | str:
    """Read a number where there is one, else the text without `$`, commas and blanks."""
    text = re.sub(r"\\?\$|[,\s]", "", answer)
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return number if number.is_finite() else text
