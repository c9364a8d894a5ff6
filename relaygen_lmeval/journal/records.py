"""What stands in the journal of one request; knows neither files nor engines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any

from relaygen_lmeval.core.latency import latency_of
from relaygen_lmeval.core.timing import Drafts, Wire
from relaygen_lmeval.core.types import Piece, RelayRequest, RelayResult, Role, Segment

SCHEMA = 1

Record = Mapping[str, Any]

# What is long, and needed by readers of the file alone.
_LONG = frozenset({"prompts", "text", "segments"})


@dataclass(frozen=True, slots=True)
class Label:
    """Where a request comes from.

    Attributes:
        task: The harness task, or `""`.
        doc_id: The document within it.
        repeat: Which of a document's repeats, from 0.
        doc_hash: Hash of the document's content, as the harness logs it with its samples.
    """

    task: str = ""
    doc_id: int = 0
    repeat: int = 0
    doc_hash: str = ""


def asked(request: RelayRequest, label: Label) -> dict[str, Any]:
    """What is asked, as it stands in the journal: all that decides a text besides the pair."""
    return {
        **asdict(label),
        "seed": request.sampling.seed,
        "sampling": _sampling(request),
        "until": list(request.until),
        "prompts": _prompts(request),
        "prompt_tokens": {r.value: len(p.token_ids) for r, p in request.prompts.items()},
        "max_tokens": request.max_tokens,
        "max_answer_tokens": request.max_answer_tokens,
    }


def key(record: Record) -> str:
    """What one asks twice has one key: that of `asked`, and of the record that came of it.

    Examples:
        >>> key({"task": "gsm8k", "text": "4"}) == key({"task": "gsm8k", "text": "5"})
        True
    """
    return json.dumps([record.get(name) for name in _ASKED], sort_keys=True)


def record_of(
    result: RelayResult, label: Label, *, origin_s: float = 0.0, run: int = 1
) -> dict[str, Any]:
    """A request as it stands in the journal.

    Args:
        result: Its outcome.
        label: Where it comes from.
        origin_s: When the run's first request was taken up; times are in seconds from then.
        run: Which start of the run wrote it, from 1.
    """
    return {
        "kind": "request",
        "run": run,
        **asked(result.request, label),
        "n_tokens": result.n_tokens,
        "n_large_tokens": result.n_tokens_by(Role.LARGE),
        "n_small_tokens": result.n_tokens_by(Role.SMALL),
        "handoffs": _handoffs(result.segments),
        "started_s": _s(result.started_s - origin_s),
        **{name: _s(value) for name, value in asdict(latency_of(result)).items()},
        "finish": result.finish,
        "flags": list(result.flags),
        "drafts": _drafts(_drafts_of_all(result.segments)),
        "segments": [_segment(segment) for segment in result.segments],
        "text": "".join(segment.text for segment in result.segments),
        "answer": result.answer,
    }


def light(record: Record) -> dict[str, Any]:
    """The record without what is long: a run of days keeps thousands in memory."""
    return {name: value for name, value in record.items() if name not in _LONG}


def _segment(segment: Segment) -> dict[str, Any]:
    timing = segment.timing
    return {
        "role": segment.role.value if segment.role else None,
        "phase": segment.phase.value,
        "n_tokens": segment.n_tokens,
        "n_chars": len(segment.text),
        "ended_by": segment.ended_by,
        "matched": segment.matched,
        **({} if segment.score is None else {"score": round(segment.score, 4)}),
        "catch_up_tokens": timing.catch_up_tokens,
        "given_back_tokens": timing.given_back_tokens,
        "wait_s": _s(timing.wait_s),
        "prefill_s": _s(timing.prefill_s),
        "decode_s": _s(timing.decode_s),
        "drafts": _drafts(timing.drafts),
        **_wire(timing.wire),
        "token_ids": list(segment.token_ids),
    }


def _handoffs(segments: Sequence[Segment]) -> int:
    """How often the writer changed, or the phase did."""
    written = [(s.role, s.phase) for s in segments if s.role and s.n_tokens]
    return sum(a != b for a, b in pairwise(written))


def _drafts_of_all(segments: Sequence[Segment]) -> Drafts | None:
    found = [segment.timing.drafts for segment in segments if segment.timing.drafts]
    return reduce(add, found) if found else None


def _drafts(drafts: Drafts | None) -> dict[str, float] | None:
    if drafts is None:
        return None
    return {
        "drafted": drafts.n_drafted,
        "accepted": drafts.n_accepted,
        "verified": drafts.n_verified,
        "mean_accepted": round(drafts.mean_accepted, 4),
        "draft_s": _s(drafts.draft_s),
    }


def _wire(wire: Wire | None) -> dict[str, Any]:
    """What a server added, for a segment that one wrote."""
    if wire is None:
        return {}
    told = asdict(wire)
    overhead_s = None if wire.server_s is None else wire.e2e_s - wire.server_s
    told["overhead_s"] = overhead_s
    return {"wire": {k: _s(v) if isinstance(v, float) else v for k, v in told.items()}}


def _prompts(request: RelayRequest) -> dict[str, str]:
    """What each model read; the small model's only where it differs."""
    large, small = (request.prompts[role].text for role in Role)
    return {"large": large} if small == large else {"large": large, "small": small}


def _sampling(request: RelayRequest) -> dict[str, float]:
    """How tokens were chosen; the seed has a field of its own."""
    return {name: value for name, value in asdict(request.sampling).items() if name != "seed"}


def _s(seconds: float) -> float:
    """Microseconds are as fine as the clock is honest."""
    return round(seconds, 6)


_ASKED = tuple(asked(RelayRequest(0, dict.fromkeys(Role, Piece("")), 1), Label()))
