"""What the word problems tell: who has what, what happens to it, and what is asked."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal, NamedTuple

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


def story(rng: random.Random) -> Story:
    """Draw a question: about six in eight count things, the others compare people or pay."""
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
    start = f"each of them costs {number(price, money=True)}"
    who = rng.choice((scene.name, scene.pronoun))
    moves = [Move(count, "*", price, count * price, f"{who} takes {count} of them")]
    told = [
        f"Each of the {scene.thing} costs {number(price, money=True)}.",
        f"{scene.name} buys {count} {scene.thing}.",
    ]
    if rng.random() < 0.5:
        extra = _price(rng)
        text = f"a {rng.choice(('hat', 'cake', 'lamp'))} for {number(extra, money=True)}"
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


def number(value: int, *, money: bool) -> str:
    """A count as it is, cents as dollars."""
    return f"${value // 100}.{value % 100:02d}" if money else str(value)
