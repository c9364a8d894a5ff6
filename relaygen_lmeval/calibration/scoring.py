"""The margins of traces, by either model or both, whatever their tokenizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from relaygen_lmeval.calibration.statistics import ScoredTrace
from relaygen_lmeval.calibration.traces import Trace
from relaygen_lmeval.core.types import Role
from relaygen_lmeval.engines.local.detokenizer import make_detokenizer
from relaygen_lmeval.engines.local.margins import margins
from relaygen_lmeval.models.pair import Pair

MarginsBy = Literal["small", "large", "both"]
MARGINS_BY: tuple[MarginsBy, ...] = ("small", "large", "both")


def score(pair: Pair, traces: Sequence[Trace], by: MarginsBy = "small") -> list[ScoredTrace]:
    """Read every trace with a model, under the prompt it has at run time.

    Args:
        pair: The models.
        traces: What the large model wrote.
        by: Whose margins; `both`: of each token the lesser, so that both must be sure of it.
            That needs tokenizers that agree.
    """
    if by != "both":
        return _score(pair, traces, Role(by))
    scored = [_score(pair, traces, role) for role in Role]
    return [
        ScoredTrace(a.texts, tuple(map(min, a.margins, b.margins)))
        for a, b in zip(*scored, strict=True)
    ]


def _score(pair: Pair, traces: Sequence[Trace], role: Role) -> list[ScoredTrace]:
    own = role is Role.LARGE or pair.shares_ids
    written = [list(trace.ids) if own else _encode(pair, trace.text) for trace in traces]
    rows = [[*t.prompts[role], *ids] for t, ids in zip(traces, written, strict=True)]
    n_context = [len(trace.prompts[role]) for trace in traces]
    found = _margins(pair, role, rows, n_context)
    return [
        ScoredTrace(trace.texts, tuple(values), None if own else _texts(pair, trace, ids))
        for trace, values, ids in zip(traces, found, written, strict=True)
    ]


def _margins(
    pair: Pair, role: Role, rows: list[list[int]], n_context: list[int]
) -> list[list[float]]:
    model = pair[role]
    if hasattr(model, "margins"):  # a ServedModel, whose module needs the extra `server`
        found: list[list[float]] = model.margins(rows, n_context)
        return found
    return margins(model.model, rows, n_context)


def _encode(pair: Pair, text: str) -> list[int]:
    return list(pair[Role.SMALL].tokenizer.encode(text, add_special_tokens=False))


def _texts(pair: Pair, trace: Trace, ids: Sequence[int]) -> tuple[str, ...]:
    detokenizer = make_detokenizer(pair[Role.SMALL].tokenizer, trace.prompts[Role.SMALL])
    return tuple(detokenizer.step(i) for i in ids)
