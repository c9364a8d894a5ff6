"""The written-out reasoning of a word problem, sentence by sentence."""

from __future__ import annotations

import random

from relaygen_lmeval.demo.stories import Move, Story, number

#: Openers and their weights. What follows an opener is easy (a restatement), hard (arithmetic)
#: or mixed; nothing else in the package reads these tables, so a calibration has to find it out.
STATE_OPENERS = {
    "So,": 34, "Now,": 20, "Thus,": 16, "Therefore,": 10, "Hence,": 8, "Then": 6, "": 6,
}  # fmt: skip
FINAL_OPENERS = {"Therefore,": 52, "So,": 22, "Thus,": 13, "Hence,": 13}
FIRST_OPENERS = {"First,": 70, "Hmm,": 8, "Then": 4, "": 10, "Specifically,": 8}
NEXT_OPENERS = {"Next,": 42, "Then": 26, "After that,": 14, "Also,": 9, "": 9}
SAME_OPENERS = {"Again,": 50, "Similarly,": 50}
INTRO_OPENERS = {"First,": 45, "Hmm,": 30, "Specifically,": 25}


def reasoning(rng: random.Random, story: Story) -> str:
    """Write the sentences: per move a calculation, a restatement and sometimes a remark.

    The newest number is always the current value, so that a restatement only copies.
    """
    sentences: list[str] = []
    has_intro = rng.random() < 0.2
    if has_intro:
        sentences.append(_sentence(rng, INTRO_OPENERS, f"we know that {story.intro}"))
    for index, move in enumerate(story.moves):
        begins = index == 0 and not has_intro
        again = index > 0 and story.moves[index - 1].op == move.op and rng.random() < 0.5
        openers = FIRST_OPENERS if begins else SAME_OPENERS if again else NEXT_OPENERS
        sentences += _move_sentences(rng, story, move, openers)
    value = number(story.moves[-1].result, money=story.money)
    final = rng.choice(
        (
            f"the answer to the question that we were given is {value}",
            f"we can say that the final answer that we need is {value}",
        )
    )
    sentences.append(_sentence(rng, FINAL_OPENERS, final))
    return rng.choices((" ", "\n"), (70, 30))[0].join(sentences)


def _move_sentences(
    rng: random.Random, story: Story, move: Move, openers: dict[str, int]
) -> list[str]:
    equation = _equation(move, money=story.money)
    value = number(move.result, money=story.money)
    body = rng.choices((equation, f"{move.reason}: {equation}"), (65, 35))[0]
    state = rng.choice(story.states).format(n=value)
    sentences = [_sentence(rng, openers, body), _sentence(rng, STATE_OPENERS, state)]
    if rng.random() < 0.27:
        sentences.append(_remark(rng, move, value, state, money=story.money))
    return sentences


def _remark(rng: random.Random, move: Move, value: str, state: str, *, money: bool) -> str:
    """Write a check or an aside about a move; it ends with the current value."""
    kind = rng.choices(
        ("check", "split", "fits", "seen", "parts", "again", "doubt"), (24, 16, 14, 12, 12, 10, 12)
    )[0]
    if kind == "check":
        return f"Wait, let me check: {_inverse(move, money=money)}, so {value} is right."
    if kind == "split" and _splits(move.right, money=money):
        return f"Alternatively, {_split(move, money=money)}, so it is {value}."
    if kind == "fits":
        return f"But {_compare(move, money=money)} {value}, as it should be."
    if kind == "seen":
        return f"Also, we can see that {state}."
    if kind == "parts":
        return f"Specifically, {_parts(move.result, money=money)} make {value}."
    opener = "Hmm," if kind == "doubt" else "Again,"
    return f"{opener} the number that we go on with is {value}."


def _inverse(move: Move, *, money: bool) -> str:
    """Undo a move: `84 - 63 = 21` for `21 + 63 = 84`."""
    left, right, result = (number(v, money=money) for v in (move.left, move.right, move.result))
    if move.op == "+":
        return f"{result} - {right} = {left}"
    if move.op == "-":
        return f"{result} + {right} = {left}"
    return f"{move.left} times {right} is {result}"


def _splits(value: int, *, money: bool) -> bool:
    unit = 100 if money else 10
    return value > unit and value % unit > 0


def _split(move: Move, *, money: bool) -> str:
    """Do a move in two parts: `20 * 3 = 60 and 1 * 3 = 3` for `3 * 21 = 63`."""
    low = move.right % (100 if money else 10)
    high = move.right - low
    if move.op == "*":
        parts = [move._replace(right=part, result=move.left * part) for part in (high, low)]
    else:
        middle = move.left + high if move.op == "+" else move.left - high
        parts = [move._replace(right=high, result=middle), move._replace(left=middle, right=low)]
    return " and ".join(_equation(part, money=money) for part in parts)


def _compare(move: Move, *, money: bool) -> str:
    base = move.right if move.op == "*" else move.left
    return f"{number(base, money=money)} is {'more' if base > move.result else 'less'} than"


def _parts(value: int, *, money: bool) -> str:
    if money:
        return f"{value // 100} dollars and {value % 100} cents"
    return f"{value // 10} tens and {value % 10} ones"


def _equation(move: Move, *, money: bool) -> str:
    left = str(move.left) if move.op == "*" else number(move.left, money=money)
    right, result = number(move.right, money=money), number(move.result, money=money)
    return f"{left} {move.op} {right} = {result}"


def _sentence(rng: random.Random, openers: dict[str, int], body: str) -> str:
    opener = rng.choices(list(openers), list(openers.values()))[0]
    text = f"{opener} {body}".strip()
    return f"{text[0].upper()}{text[1:]}."
