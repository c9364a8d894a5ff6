"""The policies that come with the package: RelayGen, what it is compared with, and its rivals."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from random import Random
from typing import ClassVar, Literal

from relaygen_lmeval.core.boundaries import Boundary
from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.policy import Move, Policy
from relaygen_lmeval.core.types import Chunk, Doubt, Judge, RelayState, Role, StopRule

_ONLY_LARGE = frozenset({Role.LARGE})
_ONLY_SMALL = frozenset({Role.SMALL})
_STEPS = ("sentence", "paragraph")


@dataclass(frozen=True, kw_only=True)
class RelayGen(Policy):
    """Cues hand over to the small model, the end of a sentence hands back.

    Attributes:
        cues: What ends a segment of the large model.
        min_large_tokens: Tokens of the large model before a cue is followed. The paper's 5
            keeps it from handing over on its own first word.
        max_small_tokens: Bound of a small segment whose sentence does not end.

    Source:
        arXiv 2602.06454.
    """

    name: ClassVar[str] = "relay"

    cues: CueTable
    min_large_tokens: int = 5
    max_small_tokens: int = 128

    def move(self, state: RelayState) -> Move:
        """The small model after a cue, else the large one."""
        if state.ended_by(Role.LARGE, "cue"):
            return Move(Role.SMALL, StopRule(boundary="sentence"), self.max_small_tokens)
        return Move(Role.LARGE, StopRule(cues=self.cues, min_tokens=self.min_large_tokens))


@dataclass(frozen=True, kw_only=True)
class AllCues(RelayGen):
    """RelayGen with every candidate word for a cue: what choosing them is worth."""

    name: ClassVar[str] = "all_cues"


@dataclass(frozen=True, kw_only=True)
class Large(Policy):
    """The large model alone: the baseline of accuracy."""

    name: ClassVar[str] = "large"
    roles: ClassVar[frozenset[Role]] = _ONLY_LARGE

    answer_by: Role = field(default=Role.LARGE, init=False)

    def move(self, state: RelayState) -> Move:
        """The large model."""
        return Move(Role.LARGE)


@dataclass(frozen=True, kw_only=True)
class Small(Policy):
    """The small model alone: the baseline of speed."""

    name: ClassVar[str] = "small"
    leader: ClassVar[Role] = Role.SMALL
    roles: ClassVar[frozenset[Role]] = _ONLY_SMALL

    answer_by: Role = field(default=Role.SMALL, init=False)

    def move(self, state: RelayState) -> Move:
        """The small model."""
        return Move(Role.SMALL)


@dataclass(frozen=True, kw_only=True)
class Periodic(Policy):
    """So many tokens of the large model, then so many of the small one, whatever they write.

    Attributes:
        large_tokens: Of the large model in a row.
        small_tokens: Of the small model in a row.
    """

    name: ClassVar[str] = "periodic"

    large_tokens: int = 16
    small_tokens: int = 16

    def __post_init__(self) -> None:
        _at_least(1, large_tokens=self.large_tokens, small_tokens=self.small_tokens)

    def move(self, state: RelayState) -> Move:
        """Whoever's turn it is."""
        if state.ended_by(Role.LARGE, "bound"):
            return Move(Role.SMALL, max_tokens=self.small_tokens)
        return Move(Role.LARGE, max_tokens=self.large_tokens)


@dataclass(frozen=True, kw_only=True)
class RandomHandoffs(Policy):
    """Handoffs at random places: is it the cues, or would any handover do?

    Segments are as long as those of a recorded run, drawn one by one; or, given a share, drawn
    from geometric lengths of that share. A request's seed fixes them.

    Attributes:
        large_lengths: Tokens of the large model's segments in a recorded run.
        small_lengths: Tokens of the small model's.
        share: The large model's part of the reasoning, where no run was recorded.
        small_tokens: Mean length of a small segment then.
    """

    name: ClassVar[str] = "random"

    large_lengths: tuple[int, ...] = ()
    small_lengths: tuple[int, ...] = ()
    share: float = 0.5
    small_tokens: int = 16

    def __post_init__(self) -> None:
        _at_least(1, small_tokens=self.small_tokens)
        _within(0, 1, share=self.share)

    def move(self, state: RelayState) -> Move:
        """The other than last time, for a length that is drawn."""
        role = Role.SMALL if state.ended_by(Role.LARGE, "bound") else Role.LARGE
        draw = Random(f"{state.request.sampling.seed}:{len(state.chunks)}")
        return Move(role, max_tokens=self._length(role, draw))

    def _length(self, role: Role, draw: Random) -> int:
        recorded = self.large_lengths if role is Role.LARGE else self.small_lengths
        if recorded:
            return draw.choice(recorded)
        of_large = self.small_tokens * self.share / (1 - self.share)
        mean = of_large if role is Role.LARGE else self.small_tokens
        return 1 + int(draw.expovariate(1 / max(mean - 0.5, 1e-3)))


@dataclass(frozen=True, kw_only=True)
class Entropy(Policy):
    """The small model writes the steps it is sure to begin: GlimpRouter's rule.

    Where the entropy of its first token's distribution (the 20 best, renormalised) reaches the
    threshold, the large model writes that step.

    Attributes:
        threshold: In nats.
        step: What a step is; the paper's are paragraphs.
        max_small_tokens: Bound of a step by the small model that does not end.

    Source:
        GlimpRouter.
    """

    name: ClassVar[str] = "entropy"

    threshold: float = 1.0
    step: Boundary = "paragraph"
    max_small_tokens: int = 512

    def __post_init__(self) -> None:
        _one_of(_STEPS, step=self.step)
        _within(0, inf, threshold=self.threshold)

    def move(self, state: RelayState) -> Move:
        """The small model, unless it has just doubted or tried to end the text."""
        if state.ended_by(Role.SMALL, "doubt", "eos"):
            return Move(Role.LARGE, StopRule(boundary=self.step))
        return self._try_small()

    def kinds(self) -> tuple[Move, ...]:
        """It watches the small model's probabilities."""
        return (self._try_small(),)

    def _try_small(self) -> Move:
        doubt = Doubt("entropy", self.threshold, first_only=True)
        return Move(
            Role.SMALL, StopRule(boundary=self.step, doubt=doubt), max_tokens=self.max_small_tokens
        )


@dataclass(frozen=True, kw_only=True)
class Margin(Policy):
    """The small model writes while its own running margin p1 - p2 is wide.

    Where the mean over its last tokens falls below the threshold, it gives back the token it
    doubted, and the large model writes to the end of the step. RelayGen's own measure, read at
    run time instead of beforehand.

    Attributes:
        threshold: In [0, 1].
        window: Tokens that the mean is over.
        step: How far the large model writes.
        max_small_tokens: Bound of a segment of the small model.
    """

    name: ClassVar[str] = "margin"

    threshold: float = 0.5
    window: int = 4
    step: Boundary = "sentence"
    max_small_tokens: int = 512

    def __post_init__(self) -> None:
        _within(0, 1, threshold=self.threshold)
        _at_least(1, window=self.window)
        _one_of(_STEPS, step=self.step)

    def move(self, state: RelayState) -> Move:
        """The small model, unless it has just doubted or tried to end the text."""
        if state.ended_by(Role.SMALL, "doubt", "eos"):
            return Move(Role.LARGE, StopRule(boundary=self.step))
        return self._try_small()

    def kinds(self) -> tuple[Move, ...]:
        """It watches the small model's probabilities."""
        return (self._try_small(),)

    def _try_small(self) -> Move:
        doubt = Doubt("margin", self.threshold, window=self.window)
        return Move(Role.SMALL, StopRule(doubt=doubt), self.max_small_tokens)


@dataclass(frozen=True, kw_only=True)
class SpeculativeThinking(Policy):
    """The small model leads; where a step of it begins with a reflection, the large one helps out.

    Attributes:
        words: Openers that bring the large model in, apart by blanks.
        step: What a step is; the paper's are paragraphs.
        large_tokens: How far the large model writes; the paper has 20 to 200 by kind of word.

    Source:
        Speculative Thinking, arXiv 2504.12329.
    """

    name: ClassVar[str] = "speculative_thinking"
    leader: ClassVar[Role] = Role.SMALL

    words: str = "Wait Alternatively Hmm However But Let"
    step: Boundary = "paragraph"
    large_tokens: int = 100

    def __post_init__(self) -> None:
        _at_least(1, large_tokens=self.large_tokens)
        _one_of(_STEPS, step=self.step)
        if not isinstance(self.words, str) or not self.words.split():
            raise ValueError("words= names no word that brings the large model in")

    def move(self, state: RelayState) -> Move:
        """The large model after a reflection, else the small one."""
        if state.ended_by(Role.SMALL, "cue"):
            return Move(Role.LARGE, max_tokens=self.large_tokens)
        return Move(Role.SMALL, StopRule(cues=self.openers))

    @cached_property
    def openers(self) -> CueTable:
        """The words where a step begins; capitals begin a sentence."""
        before = "\n\n" if self.step == "paragraph" else ""
        return CueTable(tuple(before + word for word in self.words.split()))


@dataclass(frozen=True, kw_only=True)
class SpecReason(Policy):
    """The small model writes a step, the large one judges it, and rewrites it where it is poor.

    Attributes:
        judge: `question`: the large model is asked for a score from 0 to 9, as in the paper;
            `likelihood`: the score is the probability, a token, that it gives to the step.
        threshold: The least score that is kept; default: 7 of 9, or 0.5.
        step: What a step is; the paper's are paragraphs.
        max_small_tokens: Bound of a step by the small model that does not end.

    Source:
        SpecReason, arXiv 2504.07891.
    """

    name: ClassVar[str] = "spec_reason"

    judge: Literal["question", "likelihood"] = "question"
    threshold: float | None = None
    step: Boundary = "paragraph"
    max_small_tokens: int = 512

    QUESTION: ClassVar[str] = (
        "\n\nHow good is the last step, from 0 (wrong or useless) to 9 (right and to the point)? "
        "The score, one digit, is "
    )

    def __post_init__(self) -> None:
        _one_of(("question", "likelihood"), judge=self.judge)
        if self.threshold is not None:
            _within(-inf, inf, threshold=self.threshold)
        _one_of(_STEPS, step=self.step)

    def move(self, state: RelayState) -> Move:
        """The small model tries, the large one judges, and writes what was dropped anew."""
        if state.on_trial is not None:
            return Move(Role.LARGE, judge=self._judge())
        if state.ended_by(Role.SMALL, "dropped", "eos"):
            return Move(Role.LARGE, StopRule(boundary=self.step))
        return Move(Role.SMALL, StopRule(boundary=self.step), self.max_small_tokens, on_trial=True)

    def keeps(self, verdict: Chunk) -> bool:
        """Whether the score is high enough."""
        usual = 7.0 if self.judge == "question" else 0.5
        least = usual if self.threshold is None else self.threshold
        return verdict.score is not None and verdict.score >= least

    def kinds(self) -> tuple[Move, ...]:
        """It asks the large model for judgements."""
        return (Move(Role.LARGE, judge=self._judge()),)

    def _judge(self) -> Judge:
        if self.judge == "likelihood":
            return Judge()
        return Judge(self.QUESTION, tuple("0123456789"))


POLICIES: dict[str, type[Policy]] = {
    policy.name: policy
    for policy in (
        RelayGen,
        Large,
        Small,
        AllCues,
        RandomHandoffs,
        Periodic,
        Entropy,
        Margin,
        SpeculativeThinking,
        SpecReason,
    )
}


def _at_least(least: int, **given: int) -> None:
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name}={value} must be a whole number of at least {least}")


def _within(low: float, high: float, **given: float) -> None:
    for name, value in given.items():
        if not isinstance(value, int | float) or not low < value < high:
            raise ValueError(f"{name}={value} must be a number between {low} and {high}")


def _one_of(allowed: tuple[str, ...], **given: str) -> None:
    for name, value in given.items():
        if value not in allowed:
            raise ValueError(f"{name}={value} is not one of {', '.join(allowed)}")
