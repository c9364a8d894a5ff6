"""The values that travel between the relay, the engines and the journal; they decide nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal


class Role(str, Enum):
    """Which model of the pair."""

    LARGE = "large"
    SMALL = "small"

    @property
    def other(self) -> Role:
        """The partner in the pair."""
        return Role.SMALL if self is Role.LARGE else Role.LARGE


class Phase(str, Enum):
    """What is being written: the reasoning, or the answer after the end of thinking."""

    REASONING = "reasoning"
    ANSWER = "answer"


EndedBy = Literal[
    "cue",  # the large model wrote a cue
    "boundary",  # the small model ended a sentence
    "bound",  # the small model wrote `max_small_tokens` without ending one
    "think_end",  # the reasoning is over
    "until",  # a stop string of the task
    "eos",  # the model ended the text
    "length",  # the turn's tokens are spent
    "opening",  # it is now known whether the model thinks
    "closed",  # not written by a model: the relay closed an unfinished reasoning
]
Finish = Literal["until", "eos", "length"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen.

    Attributes:
        temperature: 0 is greedy.
        top_p: Nucleus, in (0, 1]; 1 is off.
        top_k: Number of tokens kept; 0 is off.
        min_p: Share of the best token's probability that a token must reach; 0 is off.
        repetition_penalty: 1 is off.
        seed: Seed of this request alone, so that a result does not depend on its neighbours.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    @property
    def greedy(self) -> bool:
        """Whether the most probable token is always taken."""
        return self.temperature == 0.0


@dataclass(frozen=True, slots=True)
class Piece:
    """Text and its token ids in one tokenizer."""

    text: str
    token_ids: tuple[int, ...] = ()


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
        return Drafts(
            self.n_drafted + other.n_drafted,
            self.n_accepted + other.n_accepted,
            self.n_verified + other.n_verified,
            self.draft_s + other.draft_s,
        )


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
        """The cost of two chunks written one after the other."""
        told = self.server_s is not None and other.server_s is not None
        return Wire(
            self.n_requests + other.n_requests,
            self.n_retries + other.n_retries,
            self.sent_bytes + other.sent_bytes,
            self.ttft_s,
            self.e2e_s + other.e2e_s,
            self.retry_s + other.retry_s,
            self.queue_s + other.queue_s,
            (self.server_s or 0.0) + (other.server_s or 0.0) if told else None,
            self.changed_seams + other.changed_seams,
        )


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
        return Timing(
            self.wait_s + other.wait_s,
            self.prefill_s + other.prefill_s,
            self.decode_s + other.decode_s,
            self.catch_up_tokens + other.catch_up_tokens,
            self.given_back_tokens + other.given_back_tokens,
            self.stamps_s + other.stamps_s,
            self.drafts + other.drafts
            if self.drafts and other.drafts
            else self.drafts or other.drafts,
            self.wire + other.wire if self.wire and other.wire else self.wire or other.wire,
        )


@dataclass(frozen=True, slots=True)
class StopRule:
    """What ends a turn, besides the end of text and the number of tokens.

    Attributes:
        opening: Ends the turn once the text is known to begin with this or not.
        literals: Strings that end the turn where they are complete: `</think>` or `until`.
        literal_reason: What such a string means.
        after_space: Literals count only once the text has a character that is no blank.
        cues: Whether cues end the turn.
        boundaries: Whether the end of a sentence ends it.
        min_tokens: A cue waits for this many tokens, but not beyond its sentence.
    """

    opening: str | None = None
    literals: tuple[str, ...] = ()
    literal_reason: Literal["think_end", "until"] = "until"
    after_space: bool = False
    cues: bool = False
    boundaries: bool = False
    min_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a model returned for one turn.

    Attributes:
        role: Who wrote it; `None` where the relay itself closed the reasoning.
        phase: What it belongs to.
        text: With special tokens shown.
        token_ids: In the writer's tokenizer; always whole tokens.
        n_tokens: Number of tokens; equals `len(token_ids)` where the engine knows the ids.
        ended_by: Why it ended.
        matched: The cue or stop string that ended it.
        timing: Where its time went.
    """

    role: Role | None
    phase: Phase
    text: str
    token_ids: tuple[int, ...]
    n_tokens: int
    ended_by: EndedBy
    matched: str | None = None
    timing: Timing = Timing()


@dataclass(frozen=True, slots=True)
class RelayRequest:
    """One generation to relay.

    Attributes:
        seq_id: Identity of the request within a run.
        prompts: The prompt as each model reads it.
        max_tokens: Bound of all generated tokens.
        max_answer_tokens: Part of `max_tokens` kept for the answer of a model that thinks.
        until: Stop strings; they act on the answer alone where the model thinks.
        sampling: How tokens are chosen.
        thinks: Whether the model reasons before its answer; `None`: its first words tell.
        think_start: Opens the reasoning, e.g. `<think>`.
        think_end: Ends the reasoning, e.g. `</think>`.
        closing: What the relay writes to close an unfinished reasoning.
    """

    seq_id: int
    prompts: Mapping[Role, Piece]
    max_tokens: int
    max_answer_tokens: int = 0
    until: tuple[str, ...] = ()
    sampling: SamplingParams = SamplingParams()
    thinks: bool | None = False
    think_start: str = "<think>"
    think_end: str = "</think>"
    closing: Piece = Piece("")

    @property
    def reasoning_budget(self) -> int:
        """Tokens the reasoning may take, the closing not counted."""
        return self.max_tokens - self.max_answer_tokens - len(self.closing.token_ids)


@dataclass(frozen=True, slots=True)
class Turn:
    """What one model is asked to do next.

    Attributes:
        request: The generation it belongs to.
        role: Who is asked.
        phase: What is being written.
        chunks: Everything written so far; the model catches up with what it has not seen.
        rule: What ends the turn.
        max_tokens: Bound of this turn's tokens, at least 1.
        n_before: Tokens generated before this turn; with the seed it fixes the draws.
        before: The tail of the text so far that a stop may reach back into.
    """

    request: RelayRequest
    role: Role
    phase: Phase
    chunks: tuple[Chunk, ...]
    rule: StopRule
    max_tokens: int
    n_before: int = 0
    before: str = ""


@dataclass(frozen=True, slots=True)
class RelayState:
    """A generation under way. Only `relay.advance` makes the next one."""

    request: RelayRequest
    holder: Role
    phase: Phase = Phase.REASONING
    thinks: bool | None = None
    chunks: tuple[Chunk, ...] = ()
    n_tokens: int = 0
    finish: Finish | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """The longest run of tokens by one model within one phase."""

    role: Role | None
    phase: Phase
    text: str
    token_ids: tuple[int, ...]
    n_tokens: int
    ended_by: EndedBy
    matched: str | None
    timing: Timing


@dataclass(frozen=True, slots=True)
class RelayResult:
    """One finished generation.

    Attributes:
        text: The whole text, special tokens left out.
        answer: The text after the reasoning; all of it for a model that does not think.
        segments: Who wrote what, why it ended, and how long it took.
        finish: Why the generation ended.
        flags: `reasoning_closed` (unfinished reasoning, closed by the relay),
            `truncated` (the answer was cut by its budget).
        started_s: `time.perf_counter()` when the request was taken up, seconds.
        ended_s: The same when its last token was known.
    """

    request: RelayRequest
    text: str
    answer: str
    segments: tuple[Segment, ...]
    finish: Finish
    flags: tuple[str, ...] = ()
    started_s: float = 0.0
    ended_s: float = 0.0

    @property
    def n_tokens(self) -> int:
        """All generated tokens."""
        return sum(s.n_tokens for s in self.segments)

    def n_tokens_by(self, role: Role) -> int:
        """Tokens that `role` wrote."""
        return sum(s.n_tokens for s in self.segments if s.role is role)
