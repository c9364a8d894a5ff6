"""Two models relay one generation: a decoding plugin of lm-evaluation-harness.

The names below are imported when they are first used, so that `import relaygen_lmeval`, which
happens at every Python start where this package is installed, costs next to nothing.
"""

TYPE_CHECKING = False  # what `typing` has; importing that takes longer than all of this file
if TYPE_CHECKING:
    from relaygen_lmeval.core.cues import CueTable
    from relaygen_lmeval.core.types import RelayResult
    from relaygen_lmeval.relay import Relay

__version__ = "0.1.0"

__all__ = ["CueTable", "Relay", "RelayResult", "__version__"]

_HOMES = {
    "CueTable": "relaygen_lmeval.core.cues",
    "Relay": "relaygen_lmeval.relay",
    "RelayResult": "relaygen_lmeval.core.types",
}


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the lazy names too."""
    return sorted({*globals(), *__all__})
