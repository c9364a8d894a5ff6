"""The exceptions of this package, so that one `except RelayGenError` catches them all.

```text
RelayGenError
├── CalibrationError finding the cues of a pair
│   └── TraceError   the texts that they are found in
├── ConfigError      an option, a model name or a combination of them
├── CueFileError     a file of `cues/`
├── EngineError      a model that could not be loaded or run
│   ├── RequestError  one request that its model cannot finish; others go on
│   ├── ServerError  the same, behind HTTP
│   └── FailedRequests  some requests of a run failed for good; the rest is finished
├── JournalError     the append-only record of a run
├── ReportError      runs that are to be compared
└── SweepError       a file of many runs, or some of the runs
```

This module knows no other module of the package.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "CalibrationError",
    "ConfigError",
    "CueFileError",
    "EngineError",
    "FailedRequests",
    "JournalError",
    "RelayGenError",
    "ReportError",
    "RequestError",
    "ServerError",
    "SweepError",
    "TraceError",
]


class RelayGenError(Exception):
    """The root of every error that this package raises on purpose."""


class CalibrationError(RelayGenError):
    """Cues cannot be found with what was given, or the result would overwrite another."""


class TraceError(CalibrationError):
    """Traces are missing, too few, or another model's."""


class ConfigError(RelayGenError):
    """An option is unknown, has a wrong value, or does not go with another one."""


class CueFileError(RelayGenError):
    """A cue file is missing, is not readable, or does not follow the schema."""


class EngineError(RelayGenError):
    """A model could not be loaded, or could not do the turn it was asked for."""


class RequestError(EngineError):
    """One request cannot be finished, by its own size or its model's output; others can."""


class ServerError(EngineError):
    """A model server could not be reached, or answered with an error."""


class FailedRequests(EngineError):
    """Some requests of a run failed for good while the rest went on.

    Attributes:
        failed: What was the matter with each, by the request's `seq_id`.
    """

    def __init__(self, message: str, failed: Mapping[int, str]) -> None:
        super().__init__(message)
        self.failed = failed


class JournalError(RelayGenError):
    """The journal of a run is damaged, or belongs to another run."""


class ReportError(RelayGenError):
    """There is nothing to report, or what there is cannot be compared as asked."""


class SweepError(RelayGenError):
    """A sweep file says something that cannot be, or some of its runs failed."""
