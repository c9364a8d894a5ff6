"""The values that travel between the relay, the engines and the journal; they decide nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from relaygen_lmeval.core.boundaries import Boundary
from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.timing import Timing


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
    "cue",
    "boundary",  # a sentence or paragraph
    "bound",  # as many tokens as the policy asked for
    "think_end",  # the reasoning is over
    "until",  # a stop string of the task
    "eos",  # the model ended the text
    "length",  # the tokens are spent
    "opening",  # it is now known whether the model thinks
    "closed",  # not written by a model: the relay closed an unfinished reasoning
    "doubt",  # the writer was not sure of its next token, and gave it back
    "judged",  # nothing was written: a step of the other model got a score
    "dropped",  # a step that was judged and given back, all of it
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
class Doubt:
    """Ends a turn before a token that its writer is not sure of.

    Attributes:
        measure: `entropy` of the 20 best tokens, renormalised, in nats: doubtful at the
            threshold and above; or `margin` p1 - p2: doubtful below it. Both of the model's own
            distribution, before temperature and the like.
        threshold: In the unit of the measure.
        window: The mean over so many last tokens of the turn counts.
        first_only: Whether only the turn's first token is looked at.
    """

    measure: Literal["entropy", "margin"]
    threshold: float
    window: int = 1
    first_only: bool = False


@dataclass(frozen=True, slots=True)
class Judge:
    """Asks for a score of the step that is on trial, instead of more text.

    Attributes:
        question: Read after the step; nothing of it stays. Empty: the score is the
            probability of the step's tokens, their geometric mean, in [0, 1].
        choices: What may be answered; the most probable one's index is the score.
    """

    question: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StopRule:
    """What ends a turn, besides the end of text and the number of tokens.

    Attributes:
        opening: Ends the turn once the text is known to begin with this or not.
        literals: Strings that end the turn where they are complete: `</think>` or `until`.
        literal_reason: What such a string means.
        after_space: Literals count only once the text has a character that is no blank.
        cues: Strings that end the turn by the rule of their table.
        boundary: What ends the turn where it is complete: a sentence or a paragraph.
        min_tokens: A cue waits for this many tokens, but not beyond its sentence.
        doubt: Ends the turn before a token that the model is not sure of.
    """

    opening: str | None = None
    literals: tuple[str, ...] = ()
    literal_reason: Literal["think_end", "until"] = "until"
    after_space: bool = False
    cues: CueTable | None = None
    boundary: Boundary | None = None
    min_tokens: int = 0
    doubt: Doubt | None = None


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
        score: The judgement that was asked for.
    """

    role: Role | None
    phase: Phase
    text: str
    token_ids: tuple[int, ...]
    n_tokens: int
    ended_by: EndedBy
    matched: str | None = None
    timing: Timing = Timing()
    score: float | None = None


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
        judge: Asks for a score of `step` instead of more text.
        step: What is judged: written after `chunks`, and not yet a part of the text.
    """

    request: RelayRequest
    role: Role
    phase: Phase
    chunks: tuple[Chunk, ...]
    rule: StopRule
    max_tokens: int
    n_before: int = 0
    before: str = ""
    judge: Judge | None = None
    step: Chunk | None = None


@dataclass(frozen=True, slots=True)
class RelayState:
    """A generation under way. Only `relay.advance` makes the next one.

    Attributes:
        request: What was asked.
        phase: What is being written.
        thinks: Whether the model reasons before its answer; `None`: not known yet.
        chunks: Everything written so far.
        n_tokens: Its length.
        on_trial: A step that waits for a judgement before it becomes a part of the text.
        finish: Why the generation ended; `None`: it goes on.
        flags: As in `RelayResult`.
    """

    request: RelayRequest
    phase: Phase = Phase.REASONING
    thinks: bool | None = None
    chunks: tuple[Chunk, ...] = ()
    n_tokens: int = 0
    on_trial: Chunk | None = None
    finish: Finish | None = None
    flags: tuple[str, ...] = ()

    @property
    def last(self) -> Chunk | None:
        """What was written last; judgements are not written."""
        return next((c for c in reversed(self.chunks) if c.ended_by != "judged"), None)

    def ended_by(self, role: Role, *reasons: EndedBy) -> bool:
        """Whether `role` wrote last and ended by one of these."""
        last = self.last
        return last is not None and last.role is role and last.ended_by in reasons


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
    score: float | None = None


@dataclass(frozen=True, slots=True)
class RelayResult:
    """One finished generation.

    Attributes:
        text: The whole text, special tokens left out.
        answer: The text after the reasoning; all of it for a model that does not think.
        segments: Who wrote what, why it ended, and how long it took.
        finish: Why the generation ended.
        flags: `reasoning_closed` (unfinished reasoning, closed by the relay),
            `truncated` (the answer was cut by its budget), `repeats` (the budget of either
            went into saying the same again and again).
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
