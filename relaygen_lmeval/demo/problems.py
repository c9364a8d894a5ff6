"""Word problems with a written-out reasoning: the task of the demo pair.

Standard library only; it knows nothing of tokens or models. Every random choice comes from
one seeded generator, and a hash of the question alone decides the split, so that training,
calibration and test can never share a question.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from relaygen_lmeval.demo.reasoning import reasoning
from relaygen_lmeval.demo.stories import Story, number, story

Split = Literal["train", "calibration", "test"]
Published = Literal["calibration", "test"]

INSTRUCTION = r"Put the answer in \boxed{}."
#: Seed and number of problems of each published file (`problems/<split>.jsonl`).
SEED = 0
PUBLISHED: dict[Published, int] = {"test": 500, "calibration": 200}


@dataclass(frozen=True, slots=True)
class Problem:
    """One question with its worked answer.

    Attributes:
        question: The text of the question, without any instruction.
        reasoning: Sentences that lead to the answer; the last one states it.
        answer_text: One sentence with the answer in a box.
        answer: The content of the box.
        steps: How many calculations the question needs, 1 to 3.
    """

    question: str
    reasoning: str
    answer_text: str
    answer: str
    steps: int

    @property
    def target(self) -> str:
        """What a model should write."""
        return f"<think>\n{self.reasoning}\n</think>\n\n{self.answer_text}"


def split_of(question: str) -> Split:
    """Say which split a question belongs to: 80 % train, 8 % calibration, 12 % test."""
    bucket = int(hashlib.sha256(question.encode()).hexdigest()[:8], 16) % 100
    if bucket < 12:
        return "test"
    return "calibration" if bucket < 20 else "train"


def prompt(question: str) -> str:
    """Give the user turn for a question."""
    return f"{question} {INSTRUCTION}"


def generate(split: Split, seed: int = SEED) -> Iterator[Problem]:
    """Yield problems of one split without end, no question twice.

    Args:
        split: Which split; `split_of` gives the same for every yielded question.
        seed: The same seed gives the same problems in the same order.

    Yields:
        Problems, of which about one in seven is about prices.
    """
    rng = random.Random(f"{split}-{seed}")
    seen: set[str] = set()
    while True:
        told = story(rng)
        question = " ".join([*told.told, told.ask])
        if question not in seen and split_of(question) == split:
            seen.add(question)
            yield _problem(rng, question, told)


def _problem(rng: random.Random, question: str, told: Story) -> Problem:
    answer = number(told.moves[-1].result, money=told.money).removeprefix("$")
    return Problem(
        question=question,
        reasoning=reasoning(rng, told),
        answer_text=rng.choice(told.answers).format(n=rf"\boxed{{{answer}}}"),
        answer=answer,
        steps=len(told.moves),
    )
