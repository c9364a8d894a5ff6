"""The process that asks math_verify: reads pairs of answers, writes verdicts, may be killed.

`python -m relaygen_lmeval.scoring.worker` reads one JSON array `[gold, answer]` a line and writes
`true` or `false` a line. It limits no time: who started it does, and kills it. math_verify's own
limit is a signal, which works in no thread but a main one.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from typing import Any

MEMORY_BYTES = 4 << 30  # 9^{9^{9}} is short to write
READY = "ready"


def main() -> None:
    """Answer until the input ends."""
    _limit_memory()
    logging.disable(logging.WARNING)  # that its limits are off, said once a process
    import math_verify  # noqa: F401  the slow part, before the clock of a request runs

    _write(READY)
    for line in sys.stdin:
        gold, answer = json.loads(line)
        _write(equal(gold, answer))


def equal(gold: str, answer: str) -> bool:
    r"""Whether two answers are the same mathematical object, as math_verify sees it.

    Decimals count as equal when they agree to six digits.

    Args:
        gold: LaTeX or prose; the right answer.
        answer: The same; what was answered. Intervals, sets and equations are compared as such.

    Examples:
        >>> equal(r"\frac{1}{2}", "0.5"), equal("[0,1)", "[0,1]")
        (True, False)
    """
    from math_verify import verify

    try:
        return bool(verify(_parsed(gold), _parsed(answer), timeout_seconds=None))
    except (Exception, RecursionError):  # noqa: BLE001  whatever cannot be compared is not equal
        return False


def _parsed(answer: str) -> list[Any]:
    from math_verify import parse

    parsed: list[Any] = parse(rf"\boxed{{{answer}}}", parsing_timeout=None)
    return parsed


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows has no `resource`
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _write(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
