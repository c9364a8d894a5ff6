"""How sure a model is of its next token, from the log-probabilities of its best ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import exp, log

from relaygen_lmeval.core.types import Doubt

N_BEST = 20  # as many as servers give, and as GlimpRouter's entropy is made of


def entropy(logprobs: Sequence[float]) -> float:
    """Entropy of these tokens, renormalised, in nats.

    Examples:
        >>> round(entropy([log(0.5), log(0.5)]), 3)
        0.693
    """
    total = sum(map(exp, logprobs))
    return -sum(exp(p) / total * (p - log(total)) for p in logprobs if exp(p) > 0)


def margin(logprobs: Sequence[float]) -> float:
    """The best token's probability less the second's, in [0, 1]; best first.

    Examples:
        >>> round(margin([log(0.7), log(0.2), log(0.1)]), 3)
        0.5
    """
    return exp(logprobs[0]) - (exp(logprobs[1]) if len(logprobs) > 1 else 0.0)


class Watch:
    """Looks at a turn's tokens one by one, before each is written.

    Args:
        doubt: What to look for.

    Examples:
        >>> watch = Watch(Doubt("margin", 0.5, window=2))
        >>> [watch.doubts([log(p), log(1 - p)]) for p in (0.9, 0.8, 0.6)]
        [False, False, True]
    """

    def __init__(self, doubt: Doubt) -> None:
        self._doubt = doubt
        self._measured: deque[float] = deque(maxlen=doubt.window)
        self._n_seen = 0

    def doubts(self, logprobs: Sequence[float]) -> bool:
        """Whether the turn ends before this token.

        Args:
            logprobs: Of the most probable tokens, best first.
        """
        self._n_seen += 1
        if self._doubt.first_only and self._n_seen > 1:
            return False
        if self._doubt.measure == "entropy":
            return self._mean(entropy(logprobs)) >= self._doubt.threshold
        return self._mean(margin(logprobs)) < self._doubt.threshold

    def _mean(self, value: float) -> float:
        self._measured.append(value)
        return sum(self._measured) / len(self._measured)
