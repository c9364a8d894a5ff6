"""Word problems with a written-out reasoning: the task of the demo pair.

Standard library only; it knows nothing of tokens or models. Every random choice comes from
one seeded generator, and a hash of the question alone decides the split, so that training,
calibration and test can never share a question.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Split = Literal["train", "calibration", "test"]
Published = Literal["calibration", "test"]

INSTRUCTION = r"Put the answer in \boxed{}."
#: Seed and number of problems of each published file (`problems/<split>.jsonl`).
SEED = 0
PUBLISHED: dict[Published, int] = {"test": 500, "calibration": 200}

MAX_COUNT = 50
PEOPLE = tuple(
    (name, "she" if i % 2 == 0 else "he")
    for i, name in enumerate(
        [
            "Ana",
            "Ben",
            "Cora",
            "Dan",
            "Eva",
            "Finn",
            "Gina",
            "Hugo",
            "Iris",
            "Jack",
            "Kim",
            "Leo",
            "Mia",
            "Sam",
            "Rosa",
            "Tom",
        ]
    )
)
THINGS = [
    "books",
    "pens",
    "apples",
    "cards",
    "coins",
    "stamps",
    "shells",
    "eggs",
    "cups",
    "stones",
    "tickets",
    "beads",
    "plums",
    "balls",
    "maps",
    "keys",
]
PLACES = [
    "in the bag",
    "in the box",
    "on the shelf",
    "on the table",
    "in the drawer",
    "in the basket",
    "at home",
    "in the garden",
]
GAINS = ["buys", "finds", "gets", "wins", "picks up", "is given"]
LOSSES = ["gives away", "loses", "sells", "uses up", "breaks"]

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


class Move(NamedTuple):
    """One calculation: `left op right = result`, numbers in units (counts) or cents (prices)."""

    left: int
    op: Literal["+", "-", "*"]
    right: int
    result: int
    reason: str


class Scene(NamedTuple):
    """Who has what where; `other` is a second person."""

    name: str
    pronoun: str
    other: str
    thing: str
    place: str


class Story(NamedTuple):
    """A question before its reasoning is written.

    `states` are the ways to restate a value `{n}`; `answers` the ways to give the boxed one.
    """

    told: Sequence[str]
    ask: str
    intro: str
    moves: Sequence[Move]
    states: Sequence[str]
    answers: Sequence[str]
    money: bool


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
        story = _story(rng)
        question = " ".join([*story.told, story.ask])
        if question not in seen and split_of(question) == split:
            seen.add(question)
            yield _problem(rng, question, story)


def _problem(rng: random.Random, question: str, story: Story) -> Problem:
    answer = _number(story.moves[-1].result, money=story.money).removeprefix("$")
    return Problem(
        question=question,
        reasoning=_reasoning(rng, story),
        answer_text=rng.choice(story.answers).format(n=rf"\boxed{{{answer}}}"),
        answer=answer,
        steps=len(story.moves),
    )


# Stories -----------------------------------------------------------------------------------


def _story(rng: random.Random) -> Story:
    (name, pronoun), (other, _) = rng.sample(PEOPLE, 2)
    scene = Scene(name, pronoun, other, rng.choice(THINGS), rng.choice(PLACES))
    kind = rng.choices((_count_story, _pair_story, _price_story), (76, 12, 12))[0]
    return kind(rng, scene)


def _count_story(rng: random.Random, scene: Scene) -> Story:
    steps = rng.choices((1, 2, 3), (38, 44, 18))[0]
    told: list[str] = []
    moves: list[Move] = []
    if rng.random() < 0.3:
        value, start = _boxes(rng, scene, told, moves)
    else:
        value = rng.randint(10, MAX_COUNT)
        start = f"the number at the start is {value}"
        told.append(f"{scene.name} has {value} {scene.thing} {scene.place}.")
    while len(moves) < steps:
        move = _event(rng, scene, value, told)
        moves.append(move)
        value = move.result
    return Story(
        told, _count_question(rng, scene), start, moves, _states(scene), _answers(scene), False
    )


def _boxes(rng: random.Random, scene: Scene, told: list[str], moves: list[Move]) -> tuple[int, str]:
    each, packs = rng.randint(2, 8), rng.randint(2, 6)
    pack = rng.choice(("packs", "trays", "rows"))
    start = f"there are {packs} {pack} of {each}"
    told.append(f"{scene.name} has {packs} {pack} of {each} {scene.thing} {scene.place}.")
    moves.append(Move(packs, "*", each, packs * each, start))
    return packs * each, start


def _event(rng: random.Random, scene: Scene, value: int, told: list[str]) -> Move:
    """Let something happen to `value` and tell it; results stay within 2 to `MAX_COUNT`."""
    factor = rng.randint(2, 3)
    who = rng.choice((scene.name, scene.pronoun.capitalize()))
    if value * factor <= MAX_COUNT and rng.random() < 0.2:
        told.append(rng.choice(("Then", "Later")) + f" the number grows to {factor} times that.")
        return Move(factor, "*", value, factor * value, f"we take {factor} times {value}")
    if value < 15 or (value < 42 and rng.random() < 0.5):
        amount, verb = rng.randint(3, MAX_COUNT - value), rng.choice(GAINS)
        told.append(f"{who} {verb} {amount} more{rng.choice((' ' + scene.thing, ''))}.")
        reason = rng.choice((f"{scene.pronoun} {verb} {amount} more", f"we add {amount}"))
        return Move(value, "+", amount, value + amount, reason)
    amount, verb = rng.randint(3, value - 2), rng.choice(LOSSES)
    told.append(f"{who} {verb} {amount}{rng.choice((' ' + scene.thing, ' of them'))}.")
    reason = rng.choice((f"{scene.pronoun} {verb} {amount}", f"we take away {amount}"))
    return Move(value, "-", amount, value - amount, reason)


def _pair_story(rng: random.Random, scene: Scene) -> Story:
    mine = rng.randint(10, 22)
    gap = rng.randint(2, min(mine - 4, MAX_COUNT - 2 * mine))
    more = rng.random() < 0.5
    word = "more" if more else "fewer"
    theirs = mine + gap if more else mine - gap
    start = f"{scene.name} has {mine} of them"
    first = Move(
        mine, "+" if more else "-", gap, theirs, f"{scene.other} has {gap} {word} than {mine}"
    )
    second = Move(mine, "+", theirs, mine + theirs, "we put both together")
    told = [
        f"{scene.name} has {mine} {scene.thing}.",
        f"{scene.other} has {gap} {word} {scene.thing} than {scene.name}.",
    ]
    together = rng.random() < 0.6
    ask = "do they have together" if together else f"does {scene.other} have"
    return Story(
        told,
        f"How many {scene.thing} {ask}?",
        start,
        [first, second] if together else [first],
        [
            "the number in this part is {n}, and we go on from {n}",
            "that part gives us {n}, so the number to go on with is {n}",
        ],
        ["The answer is {n}.", "There are {n}."],
        False,
    )


def _price_story(rng: random.Random, scene: Scene) -> Story:
    price, count = _price(rng), rng.randint(2, 4)
    start = f"each of them costs {_number(price, money=True)}"
    who = rng.choice((scene.name, scene.pronoun))
    moves = [Move(count, "*", price, count * price, f"{who} takes {count} of them")]
    told = [
        f"Each of the {scene.thing} costs {_number(price, money=True)}.",
        f"{scene.name} buys {count} {scene.thing}.",
    ]
    if rng.random() < 0.5:
        extra = _price(rng)
        text = f"a {rng.choice(('hat', 'cake', 'lamp'))} for {_number(extra, money=True)}"
        told.append(f"{scene.pronoun.capitalize()} also buys {text}.")
        total = count * price + extra
        moves.append(Move(count * price, "+", extra, total, f"{who} buys one more thing"))
    return Story(
        told,
        rng.choice((f"How much does {scene.name} pay?", "How many dollars is that in all?")),
        start,
        moves,
        [
            "the cost of it all so far is {n}, and we go on from {n}",
            f"{scene.name} has to pay {{n}} at this point",
        ],
        ["The answer is {n} dollars.", f"{scene.name} pays {{n}} dollars."],
        True,
    )


def _price(rng: random.Random) -> int:
    """Draw a price in cents: halves more often than quarters."""
    return 100 * rng.randint(1, 5) + rng.choice((0, 50, 50, 50, 25, 75))


def _count_question(rng: random.Random, scene: Scene) -> str:
    return rng.choice(
        (
            f"How many {scene.thing} does {scene.name} have now?",
            f"How many {scene.thing} are there in the end?",
            f"How many {scene.thing} does {scene.pronoun} have {scene.place}?",
        )
    )


def _states(scene: Scene) -> list[str]:
    return [
        f"{scene.name} has {{n}} of them after that, and we go on from {{n}}",
        "there are {n} of them at this point, and we go on from {n}",
        f"the number that {scene.name} has is {{n}}, so we go on from {{n}}",
        f"{scene.pronoun} has {{n}} of them, so the number to go on with is {{n}}",
    ]


def _answers(scene: Scene) -> list[str]:
    return [f"{scene.name} has {{n}} of them.", "There are {n}.", "The answer is {n}."]


# Reasoning ---------------------------------------------------------------------------------


def _reasoning(rng: random.Random, story: Story) -> str:
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
    value = _number(story.moves[-1].result, money=story.money)
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
    value = _number(move.result, money=story.money)
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
    left, right, result = (_number(v, money=money) for v in (move.left, move.right, move.result))
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
    return f"{_number(base, money=money)} is {'more' if base > move.result else 'less'} than"


def _parts(value: int, *, money: bool) -> str:
    if money:
        return f"{value // 100} dollars and {value % 100} cents"
    return f"{value // 10} tens and {value % 10} ones"


def _equation(move: Move, *, money: bool) -> str:
    left = str(move.left) if move.op == "*" else _number(move.left, money=money)
    right, result = _number(move.right, money=money), _number(move.result, money=money)
    return f"{left} {move.op} {right} = {result}"


def _number(value: int, *, money: bool) -> str:
    return f"${value // 100}.{value % 100:02d}" if money else str(value)


def _sentence(rng: random.Random, openers: dict[str, int], body: str) -> str:
    opener = rng.choices(list(openers), list(openers.values()))[0]
    text = f"{opener} {body}".strip()
    return f"{text[0].upper()}{text[1:]}."
