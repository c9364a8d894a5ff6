"""Where the time of a chunk went, and what it took besides; sums over chunks."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

T = TypeVar("T", "Drafts", "Wire", "Timing")


@dataclass(frozen=True, slots=True)
class Drafts:
    """What speculation did for one chunk.

    Attributes:
        n_drafted: Tokens that were drafted.
        n_accepted: Those of them that the target kept.
        n_verified: Forwards of the target that verified drafts; each writes one token of its
            own as well.
        draft_s: Time spent drafting, seconds; part of the chunk's `prefill_s` and `decode_s`.
    """

    n_drafted: int = 0
    n_accepted: int = 0
    n_verified: int = 0
    draft_s: float = 0.0

    @property
    def mean_accepted(self) -> float:
        """Mean accept length: tokens that one verifying forward gives, its own included."""
        return 1 + self.n_accepted / self.n_verified if self.n_verified else 1.0

    def __add__(self, other: Drafts) -> Drafts:
        """The drafts of two chunks."""
        return _sum(self, other)


@dataclass(frozen=True, slots=True)
class Wire:
    """What one chunk cost between here and its server; seconds on this side's clock.

    Attributes:
        n_requests: Requests that were sent, those that failed left out.
        n_retries: Requests that failed and were sent again.
        sent_bytes: Bodies of all of them.
        ttft_s: From asking to the first token; where nothing tells, to the whole reply.
        e2e_s: From asking to the last token, retries left out.
        retry_s: Spent on requests that failed and on waiting to send them again.
        queue_s: In the server's queue, by its own account; 0 where it gives none.
        server_s: The server's own time, its queue included; `None` where it gives none.
        changed_seams: Places where reading the joined text anew gives other token ids.
    """

    n_requests: int = 0
    n_retries: int = 0
    sent_bytes: int = 0
    ttft_s: float = 0.0
    e2e_s: float = 0.0
    retry_s: float = 0.0
    queue_s: float = 0.0
    server_s: float | None = None
    changed_seams: int = 0

    def __add__(self, other: Wire) -> Wire:
        """The cost of two chunks written one after the other: the first token is the first's."""
        told = self.server_s is not None and other.server_s is not None
        both = _sum(self, other)
        return replace(both, ttft_s=self.ttft_s, server_s=both.server_s if told else None)


@dataclass(frozen=True, slots=True)
class Timing:
    """Where the time of one chunk went.

    Attributes:
        wait_s: From the turn's arrival at the engine to its first forward, seconds.
        prefill_s: The catch-up forward, which also gives the first token, seconds.
        decode_s: All further forwards this row took part in, seconds.
        catch_up_tokens: Tokens the model had to read first (prompt, or the partner's text).
        given_back_tokens: Tokens computed only to recognise a stop, then dropped.
        stamps_s: `time.perf_counter()` right after each kept token, seconds.
        drafts: What speculation did; `None` where nothing was drafted.
        wire: What the way to a server added; `None` for a model in this process.
    """

    wait_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    catch_up_tokens: int = 0
    given_back_tokens: int = 0
    stamps_s: tuple[float, ...] = ()
    drafts: Drafts | None = None
    wire: Wire | None = None

    def __add__(self, other: Timing) -> Timing:
        """The time of two chunks written one after the other."""
        return _sum(self, other)


def _sum(a: T, b: T) -> T:
    """Field by field; where one side has nothing, the other's."""
    return type(a)(*(_plus(getattr(a, f.name), getattr(b, f.name)) for f in fields(a)))


def _plus(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return a if b is None else b
    return a + b
