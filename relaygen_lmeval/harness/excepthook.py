"""Says our errors in one line where a stock command would print a traceback."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType

from relaygen_lmeval.errors import RelayGenError

_COMMANDS = ("lm_eval", "lm-eval", "relaygen")


def say_errors_in_one_line() -> None:
    """Under the `lm_eval` command our errors need no traceback; any other error keeps its own."""
    command = Path(sys.argv[0])
    if command.stem not in _COMMANDS and command.parent.name != "lm_eval":
        return
    other = sys.excepthook

    def say(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, RelayGenError):
            sys.stderr.write(f"relaygen: {error}\n")
        else:
            other(kind, error, trace)

    sys.excepthook = say
