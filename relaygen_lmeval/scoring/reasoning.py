"""Tells an answer from the reasoning before it, in the text of any model.

It knows the tags that models think between, and no prompt, task or harness.
"""

from __future__ import annotations

import re

# What opens and what closes a reasoning: Qwen3, DeepSeek-R1 and most others; Magistral; Seed-OSS;
# Sky-T1 and OpenThinker; Granite and others that were told to in plain words.
TAGS = {
    "<think>": "</think>",
    "[THINK]": "[/THINK]",
    "<seed:think>": "</seed:think>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<thinking>": "</thinking>",
}
_TAG = re.compile("|".join(re.escape(tag) for pair in TAGS.items() for tag in pair))


def opens_reasoning(prompt: str) -> bool:
    r"""Whether a prompt ends inside a reasoning, so that the text goes on in it.

    Examples:
        >>> opens_reasoning("<|im_start|>assistant\n<think>\n")
        True
        >>> opens_reasoning("<|im_start|>assistant\n<think>\n\n</think>\n\n")
        False
    """
    return prompt.rstrip().endswith(tuple(TAGS))


def answer_part(text: str, *, opened: bool = False) -> str | None:
    """Give what follows the reasoning.

    Args:
        text: As a model wrote it, with its reasoning or without.
        opened: Whether the prompt has opened the reasoning already.

    Returns:
        The text after the last reasoning that was closed; all of it where there is none;
        `None` where a reasoning was opened and never closed: it holds no answer, whatever
        stands in it.

    Examples:
        >>> answer_part("<think>It is 3, or 4.</think>4")
        '4'
        >>> answer_part("So it is 3.", opened=True) is None
        True
    """
    tags = list(_TAG.finditer(text))
    if not tags:
        return None if opened else text
    last = tags[-1]
    return None if last[0] in TAGS else text[last.end() :]
