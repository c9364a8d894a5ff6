"""What a policy is: it says who writes next while the two models share a reasoning.

It is asked before every turn and sees all that was written. It keeps no state of its own, so a
run can be resumed, repeated and batched at will. Budgets, stop strings, the end of thinking and
the answer are `core.relay`'s, the same under every policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from relaygen_lmeval.core.types import Chunk, Judge, RelayState, Role, StopRule


@dataclass(frozen=True, slots=True)
class Move:
    """What is asked of one model next.

    Attributes:
        role: Who writes.
        rule: What ends it. The end of thinking and stop strings are added by the relay.
        max_tokens: Bound of its tokens; `None`: what the budget leaves.
        on_trial: Whether it becomes a part of the text only after a judgement.
        judge: Asks, instead of more text, for a judgement of what is on trial.
    """

    role: Role
    rule: StopRule = StopRule()
    max_tokens: int | None = None
    on_trial: bool = False
    judge: Judge | None = None


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A division of labour between the two models. Its fields are its options in `--model_args`.

    A subclass is a frozen dataclass with a `name` and a `move`. Fields named as options of a run
    (`cues`, `answer_by`, `min_large_tokens`, `max_small_tokens`) are filled from them; any other
    field is an option of its own. A wrong value raises `ValueError` in `__post_init__`.

    Attributes:
        name: As in `policy=`.
        leader: Who begins, and who alone may end the text while the reasoning is shared.
        roles: The models it can ask.
        answer_by: Who writes the answer after the reasoning.
    """

    name: ClassVar[str]
    leader: ClassVar[Role] = Role.LARGE
    roles: ClassVar[frozenset[Role]] = frozenset(Role)

    answer_by: Role = Role.SMALL

    def move(self, state: RelayState) -> Move:
        """Say who writes next, and up to what.

        Args:
            state: Everything written so far; `state.last` is what ended just now.
        """
        raise NotImplementedError

    def keeps(self, verdict: Chunk) -> bool:
        """Whether a step with this judgement becomes a part of the text."""
        raise NotImplementedError

    def kinds(self) -> tuple[Move, ...]:
        """One of every kind of move, so that an engine which cannot make one refuses at start."""
        return ()
