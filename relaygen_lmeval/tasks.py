"""Where the files that travel with the package lie: the tasks and the cues.

It knows two folder names and none of what is in them.
"""

from __future__ import annotations

from pathlib import Path


def tasks_path() -> Path:
    """Give the folder of task configurations, as lm-evaluation-harness's `--include_path` wants it.

    Examples:
        >>> (tasks_path() / "relaygen_arithmetic.yaml").is_file()
        True
    """
    return _shipped("task_configs")


def cues_path() -> Path:
    """Give the folder of the shipped cue files.

    Examples:
        >>> (cues_path() / "demo.json").is_file()
        True
    """
    return _shipped("cues")


def _shipped(folder: str) -> Path:
    """Look inside the package (an installed wheel), else beside it (a checkout)."""
    package = Path(__file__).resolve().parent
    inside = package / folder
    return inside if inside.is_dir() else package.parent / folder
