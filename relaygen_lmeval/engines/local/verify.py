"""The target's judgement of drafts, from the logits of one forward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from relaygen_lmeval.core.speculation import accept_drafts, accept_sampled
from relaygen_lmeval.engines.local.sampling import Draw, choose_row, odds, pick


class Draft(NamedTuple):
    """Tokens that may come next.

    Attributes:
        ids: The tokens.
        odds: The distribution `[V]` that each was drawn from; empty where they were not drawn
            but chosen, so that each has to be what the target chooses.
    """

    ids: list[int]
    odds: list[torch.Tensor]


def verify(logits: torch.Tensor, drafts: Sequence[Draft], draws: Sequence[Draw]) -> list[list[int]]:
    """Keep of each row's drafts what the target might have written, and add a token of its own.

    Args:
        logits: Raw, `[n, q, V]`; the last `len(ids) + 1` of a row stand before each of its
            drafts and after the last.
        drafts: One a row; none may be longer than `q - 1`.
        draws: What decides the first token of each row.

    Returns:
        For each row the drafts that are kept, and one token more; -1 where the logits are not
        finite.
    """
    best, choices = logits.float().max(-1)
    chosen = choices.masked_fill(~torch.isfinite(best), -1).tolist()
    blocks = []
    for scores, row, draft, draw in zip(logits, chosen, drafts, draws, strict=True):
        own = row[-(len(draft.ids) + 1) :]
        if not draw.plain and -1 not in own:
            blocks.append(_verify_row(scores[-len(own) :], draft, draw))
            continue
        n = accept_drafts(draft.ids, own)
        blocks.append([*draft.ids[:n], own[n]])
    return blocks


def _verify_row(scores: torch.Tensor, draft: Draft, draw: Draw) -> list[int]:
    """One row whose settings look at more than the highest logit; `scores` `[n_drafts + 1, V]`."""
    for n, token in enumerate(draft.ids):
        at = draw.after(draft.ids[:n])
        if draft.odds:
            own = _accept_or_draw(odds(scores[n], at), draft.odds[n], token, at)
        else:
            # With a draft that is certain, the rejection rule is just this: draw, and compare.
            own = int(choose_row(scores[n], at))
        if own != token:
            return [*draft.ids[:n], own]
    return [*draft.ids, int(choose_row(scores[-1], draw.after(draft.ids)))]


def _accept_or_draw(target: torch.Tensor, draft: torch.Tensor, token: int, draw: Draw) -> int:
    """The drafted token, or one from where the target gives more than the draft model."""
    if accept_sampled(float(target[token]), float(draft[token]), draw.mark(" accept")):
        return token
    return int(pick((target - draft).clamp_min(0), draw.mark()))
