"""What all pictures have in common: an empty figure, plain axes, a file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from relaygen_lmeval.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def blank(width: float, height: float) -> Figure:
    """An empty figure, inches.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            "pictures need matplotlib: pip install 'relaygen-lmeval[report]', or ask for none with "
            "--no-pictures"
        ) from error
    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def unframe(axes: Axes) -> None:
    """Leave out the lines around the data."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)


def save(figure: Figure, path: Path) -> None:
    """Write a PNG that is the same for the same data."""
    with warnings.catch_warnings():  # a font without a script's letters draws boxes
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(path, metadata={"Software": None})
