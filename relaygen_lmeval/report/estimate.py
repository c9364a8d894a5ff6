"""What the recorded work would take with other step times, at another share or batch size.

Plain arithmetic on forwards, one step of a model each; no clock of the recorded run is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

Record = Mapping[str, Any]
Devices = Literal["one", "two"]
_ROUNDS = 200  # of the fixed point of two devices; each halves what is left or better


@dataclass(frozen=True, slots=True)
class Work:
    """What a request asks of the models, on average.

    Attributes:
        n_tokens: It generates.
        large: Forwards of the large model.
        small: Of the small one; drafts are among them.
        large_read: Tokens that the large model reads: the prompt, and what the other wrote.
        small_read: Of the small one.
        prompt: Tokens of the prompt.
    """

    n_tokens: float
    large: float
    small: float
    large_read: float
    small_read: float
    prompt: float

    def alone(self, role: Literal["large", "small"]) -> Work:
        """The same number of tokens by one model."""
        none = Work(self.n_tokens, 0.0, 0.0, 0.0, 0.0, self.prompt)
        return replace(none, **{role: self.n_tokens, f"{role}_read": self.prompt})

    def at_share(self, share: float) -> Work:
        """The same forwards, divided otherwise; what is read at handoffs stays as it is.

        Args:
            share: The large model's part, in [0, 1].
        """
        every = self.large + self.small
        return replace(self, large=share * every, small=(1 - share) * every)


@dataclass(frozen=True, slots=True)
class Costs:
    """How long forwards take.

    Attributes:
        large_ms: A step of the large model with one row, milliseconds.
        small_ms: Of the small one.
        large_read_ms: What reading a thousand tokens adds to a step, milliseconds.
        small_read_ms: Of the small one.
        growth: What each further row adds to a step, as a part of the step with one row; 0 where
            memory is the bound, 1 where arithmetic is.
    """

    large_ms: float
    small_ms: float
    large_read_ms: float = 0.0
    small_read_ms: float = 0.0
    growth: float = 0.0


def work_of(records: Sequence[Record], *, small_drafts: bool) -> Work:
    """Count the forwards behind requests.

    Args:
        records: At least one request of a journal.
        small_drafts: Whether drafted tokens cost forwards of the small model; looked-up ones are
            free.
    """
    sums = dict.fromkeys(("large", "small", "large_read", "small_read"), 0)
    for record in records:
        for segment in record["segments"]:
            role = segment["role"]
            if role is None:
                continue
            drafts = segment.get("drafts") or {"drafted": 0, "accepted": 0}
            sums[role] += _forwards(segment, drafts["accepted"])
            sums["small"] += drafts["drafted"] if small_drafts else 0
            sums[f"{role}_read"] += segment["catch_up_tokens"]
    n = len(records)
    return Work(
        n_tokens=sum(record["n_tokens"] for record in records) / n,
        prompt=sum(record["prompt_tokens"]["large"] for record in records) / n,
        **{name: value / n for name, value in sums.items()},
    )


def e2e_s(work: Work, costs: Costs, batch: int = 1, devices: Devices = "one") -> float:
    """Mean time of a request while `batch` of them are under way all the time, seconds.

    Args:
        work: Of a request.
        costs: Of forwards.
        batch: Requests at once, at least 1.
        devices: On `one`, the two models step in turn and every row waits for both; on `two`, each
            steps on its own.

    Examples:
        >>> e2e_s(Work(100, 50, 50, 0, 0, 0), Costs(30, 4))
        1.7
    """
    steps_ms = (
        _one_device_ms(work, costs, batch) if devices == "one" else _two_ms(work, costs, batch)
    )
    reads_ms = work.large_read * costs.large_read_ms + work.small_read * costs.small_read_ms
    return (steps_ms + batch * reads_ms / 1000) / 1000


def _forwards(segment: Record, accepted: int) -> int:
    """One a token, given-back ones too, less those that came with another; one to read alone."""
    n: int = segment["n_tokens"] + segment["given_back_tokens"] - accepted
    return max(n, 1 if segment["catch_up_tokens"] else 0)


def _one_device_ms(work: Work, costs: Costs, batch: int) -> float:
    """Every row goes one step a round; a model without rows in a round is not run."""
    every = work.large + work.small
    if not every:
        return 0.0
    round_ms = sum(
        step_ms * _expected_rows_cost(forwards / every, batch, costs.growth)
        for forwards, step_ms in ((work.large, costs.large_ms), (work.small, costs.small_ms))
    )
    return every * round_ms


def _expected_rows_cost(part: float, batch: int, growth: float) -> float:
    """Mean cost of a step, in steps of one row, if each row is with the model with chance `part`."""
    some = 1 - (1 - part) ** batch
    return (1 - growth) * some + growth * batch * part


def _two_ms(work: Work, costs: Costs, batch: int) -> float:
    """A row waits for its own model alone; rows are where they spend their time."""
    large_ms, small_ms = work.large * costs.large_ms, work.small * costs.small_ms
    if not large_ms + small_ms:
        return 0.0
    part = large_ms / (large_ms + small_ms)
    for _ in range(_ROUNDS):
        at_large = large_ms * _step(batch * part, costs.growth)
        at_small = small_ms * _step(batch * (1 - part), costs.growth)
        part = (part + at_large / (at_large + at_small)) / 2
    return at_large + at_small


def _step(rows: float, growth: float) -> float:
    return 1 + growth * max(0.0, rows - 1)
