"""The training texts of the demo pair: prompt forms, chat template and published files.

Standard library only; it knows nothing of tokenizers or models.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from relaygen_lmeval.demo.problems import PUBLISHED, SEED, Problem, generate, prompt

Form = Literal["chat", "plain", "direct"]

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SYSTEM = "You are a helpful assistant."
FORMS: dict[Form, int] = {"chat": 76, "plain": 20, "direct": 4}
CHAT_TEMPLATE = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}
{{- '<think>\\n\\n</think>\\n\\n' }}
{%- endif %}
{%- endif %}"""


class Pair(NamedTuple):
    """A prompt and the text that should follow it."""

    prompt: str
    target: str


def prompt_text(question: str, form: Form, *, system: str = "", bare: bool = False) -> str:
    """Render a prompt as the model sees it.

    Args:
        question: The question, without instruction.
        form: `chat`; `direct`, which is chat with the thinking switched off; or `plain`.
        system: A system turn for the chat forms; none if empty.
        bare: Leave out the instruction, which `plain` never has.

    Returns:
        Text that `CHAT_TEMPLATE` gives too, or `Question: ...` to `Answer:`. A plain target
        follows without a space, so that its prompt is a clean prefix in tokens.
    """
    if form == "plain":
        return f"Question: {question}\nAnswer:"
    user = question if bare else prompt(question)
    head = f"{START}system\n{system}{END}\n" if system else ""
    tail = "<think>\n\n</think>\n\n" if form == "direct" else ""
    return f"{head}{START}user\n{user}{END}\n{START}assistant\n{tail}"


def pairs(seed: int) -> Iterator[Pair]:
    """Yield training pairs without end; the same seed gives the same pairs."""
    rng = random.Random(seed)
    for problem in generate("train", seed):
        yield _pair(rng, problem)


def tokenizer_texts(seed: int, count: int) -> Iterator[str]:
    """Yield plain texts with every word that a model of the demo reads or writes."""
    for p in islice(generate("train", seed), count):
        yield f"user\n{prompt(p.question)}\nassistant\n{p.target}\nQuestion:"


def write_problems(output: Path) -> None:
    """Write `problems/<split>.jsonl` for the two published splits."""
    folder = output / "problems"
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in PUBLISHED.items():
        rows = [
            {"question": p.question, "answer": p.answer, "steps": p.steps, "reasoning": p.reasoning}
            for p in islice(generate(split, SEED), count)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{split}.jsonl").write_text(text, encoding="utf-8", newline="\n")


def _pair(rng: random.Random, problem: Problem) -> Pair:
    form = rng.choices(list(FORMS), list(FORMS.values()))[0]
    system = SYSTEM if rng.random() < 0.1 else ""
    text = prompt_text(problem.question, form, system=system, bare=rng.random() < 0.1)
    return Pair(text, (problem.answer_text if form == "direct" else problem.target) + END)
