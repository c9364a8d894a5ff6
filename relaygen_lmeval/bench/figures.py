"""From the rounds of all contestants to the figures of each."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import mean, median
from typing import Any

from relaygen_lmeval.bench.contestants import Round
from relaygen_lmeval.core.timing import Drafts
from relaygen_lmeval.core.types import Role
from relaygen_lmeval.scoring.boxes import boxed


def figures(
    mine: Sequence[Round], stock: Sequence[Round], answers: Sequence[str]
) -> dict[str, Any]:
    """The figures of one contestant.

    Args:
        mine: Its rounds.
        stock: Those of stock `hf`, in the same order.
        answers: The right answer to each problem.

    Returns:
        Spreads of `wall_s` and of the `ratio` to `hf`; `tokens_per_s`; `accuracy` with
        `accuracy_se`; how many texts equal `hf`'s; and of ours `e2e_s`, `share` and the
        speculation's `drafted`, `accepted`, `mean_accepted`; and where floors were measured
        the spread of wall time `over_floor`.
    """
    first = mine[0]
    right = [_is_right(text, answer) for text, answer in zip(first.texts, answers, strict=True)]
    share_right = mean(right)
    walls = [r.wall_s for r in mine]
    ratios = [theirs.wall_s / ours.wall_s for theirs, ours in zip(stock, mine, strict=True)]
    return {
        "wall_s": spread(walls),
        "n_tokens": first.n_tokens,
        "tokens_per_s": first.n_tokens / median(walls),
        "ratio": spread(ratios),
        "accuracy": share_right,
        "accuracy_se": sqrt(share_right * (1 - share_right) / len(right)),
        "same_text_as_hf": sum(a == b for a, b in zip(first.texts, stock[0].texts, strict=True)),
        "repeats_itself": all(r.texts == first.texts for r in mine),
        **_of_ours(mine),
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, least and most."""
    return {"median": median(values), "min": min(values), "max": max(values)}


def _of_ours(mine: Sequence[Round]) -> dict[str, Any]:
    results, n_tokens = mine[0].results, mine[0].n_tokens
    if not results or not n_tokens:
        return {}
    drafts = [s.timing.drafts for r in results for s in r.segments if s.timing.drafts]
    total = sum(drafts, Drafts())
    over = [one.wall_s / one.floor_s for one in mine if one.floor_s]
    return {
        "e2e_s": median(mean(r.ended_s - r.started_s for r in one.results) for one in mine),
        "share": sum(result.n_tokens_by(Role.LARGE) for result in results) / n_tokens,
        "drafted": total.n_drafted,
        "accepted": total.n_accepted,
        "mean_accepted": total.mean_accepted,
        **({"over_floor": spread(over)} if over else {}),
    }


def _is_right(text: str, answer: str) -> bool:
    return (boxed(text) or "").replace(",", "").strip("$ ") == answer
