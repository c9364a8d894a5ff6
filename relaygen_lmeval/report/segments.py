"""What the segments of many requests amount to: time, share along the reasoning, lengths, cues.

It knows the journal's records; no files, no pictures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Record = Mapping[str, Any]

N_BINS = 20
TIMES = ("large decode", "small decode", "catch-up", "draft", "verify", "waiting", "other")


def time_spent(records: Sequence[Record]) -> dict[str, float]:
    """Where the time of a request goes, on average.

    Args:
        records: At least one request.

    Returns:
        Seconds by `TIMES`; they add up to the mean E2E. `catch-up` is the forward over the prompt
        or over what the other model wrote, which also gives a token; `verify` is the decoding of
        segments with drafts, less the drafting; `other` is what no segment accounts for.
    """
    spent = dict.fromkeys(TIMES, 0.0)
    for record in records:
        for segment in record["segments"]:
            for name, seconds in _times_of(segment):
                spent[name] += seconds
    total_s = sum(record["e2e_s"] for record in records)
    spent["other"] = max(0.0, total_s - sum(spent.values()))
    return {name: seconds / len(records) for name, seconds in spent.items()}


def share_along(records: Iterable[Record]) -> NDArray[np.float64]:
    """The large model's share along the relative position in the reasoning.

    Returns:
        Of shape [N_BINS], from the first to the last twentieth of each reasoning's tokens; `nan`
        where there are none.
    """
    large, every = np.zeros(N_BINS), np.zeros(N_BINS)
    for record in records:
        written = [s for s in record["segments"] if s["phase"] == "reasoning" and s["role"]]
        n = sum(segment["n_tokens"] for segment in written)
        bins = np.arange(n) * N_BINS // max(n, 1)
        is_large = np.repeat(
            [s["role"] == "large" for s in written], [s["n_tokens"] for s in written]
        )
        every += np.bincount(bins, minlength=N_BINS)
        large += np.bincount(bins, is_large, N_BINS)
    share: NDArray[np.float64] = np.divide(
        large, every, out=np.full(N_BINS, np.nan), where=every > 0
    )
    return share


def lengths(records: Iterable[Record], role: str) -> list[int]:
    """Tokens of each segment that one model wrote in the reasoning."""
    return [
        segment["n_tokens"]
        for record in records
        for segment in record["segments"]
        if segment["role"] == role and segment["phase"] == "reasoning" and segment["n_tokens"]
    ]


@dataclass(frozen=True, slots=True)
class CueUse:
    """How one cue fared.

    Attributes:
        cue: Its text.
        fired: How often it ended a segment.
        n_texts: In how many texts.
        n_tokens: Mean length of the segments after it.
        to_boundary: Part of these that came to the end of their sentence, in [0, 1].
        correct: Mean worth of the texts in which it fired; `None` without verdicts.
    """

    cue: str
    fired: int
    n_texts: int
    n_tokens: float
    to_boundary: float
    correct: float | None


def cue_use(scored: Iterable[tuple[Record, float | None]]) -> list[CueUse]:
    """Which cues fired and how the segments after them fared, the most frequent first.

    Args:
        scored: Requests with what their text is worth.
    """
    after: dict[str, list[Record]] = defaultdict(list)
    worth: dict[str, list[float | None]] = defaultdict(list)
    for record, correct in scored:
        fired = list(_fired(record))
        for cue, segment in fired:
            after[cue].append(segment)
        for cue in dict.fromkeys(cue for cue, _ in fired):
            worth[cue].append(correct)
    uses = [_use(cue, segments, worth[cue]) for cue, segments in after.items()]
    return sorted(uses, key=lambda use: (-use.fired, use.cue))


def _times_of(segment: Record) -> Iterator[tuple[str, float]]:
    drafts = segment.get("drafts")
    draft_s = drafts["draft_s"] if drafts else 0.0
    yield "waiting", segment["wait_s"]
    yield "catch-up", segment["prefill_s"]
    if drafts:
        yield "draft", draft_s
        yield "verify", segment["decode_s"] - draft_s
    elif segment["role"]:
        yield f"{segment['role']} decode", segment["decode_s"]


def _fired(record: Record) -> Iterator[tuple[str, Record]]:
    """Each cue with the segment after it."""
    for segment, following in pairwise(record["segments"]):
        if segment["ended_by"] == "cue" and segment["matched"]:
            yield segment["matched"], following


def _use(cue: str, segments: Sequence[Record], worth: Sequence[float | None]) -> CueUse:
    known = [value for value in worth if value is not None]
    return CueUse(
        cue=cue,
        fired=len(segments),
        n_texts=len(worth),
        n_tokens=sum(s["n_tokens"] for s in segments) / len(segments),
        to_boundary=sum(s["ended_by"] == "boundary" for s in segments) / len(segments),
        correct=sum(known) / len(known) if known else None,
    )
