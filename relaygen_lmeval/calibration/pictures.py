"""Two pictures of a calibration: margins per cue, and the margin along one trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relaygen_lmeval.calibration.selection import Decision
from relaygen_lmeval.calibration.statistics import CueStatistics, Measured
from relaygen_lmeval.core.margins import TokenRange
from relaygen_lmeval.report.canvas import blank, save, unframe

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SELECTED, OTHER, LINE, SHADE = "#0b7285", "#9aa0a6", "#c2410c", "#c5e8ec"
MAX_CUES = 45
TOKENS_PER_ROW, MAX_ROWS = 40, 6


def draw_cues(
    measured: Measured, decisions: Mapping[str, Decision], title: str, path: Path
) -> None:
    """Draw the mean margin of every candidate that occurs, with its interval, as a PNG.

    Args:
        measured: The statistics.
        decisions: Selected candidates get another colour.
        title: Of the picture.
        path: The file to make or replace.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    shown = [(cue, s) for cue, s in measured.cues.items() if s.ci_low is not None]
    shown = sorted(shown, key=lambda item: -item[1].occurrences)[:MAX_CUES]
    shown.sort(key=lambda item: item[1].mean_margin or 0.0)
    figure = blank(8.0, 1.6 + 0.27 * max(3, len(shown)))
    axes = figure.subplots()
    unframe(axes)
    for y, (cue, statistics) in enumerate(shown):
        _draw_cue(axes, y, statistics, SELECTED if decisions[cue].selected else OTHER)
    axes.axvline(measured.global_mean, color=LINE, linewidth=1.4, zorder=1)
    axes.text(
        measured.global_mean,
        1.0,
        f"all tokens {measured.global_mean:.3f} ",
        color=LINE,
        transform=axes.get_xaxis_transform(),
        ha="right",
        va="bottom",
        fontsize=9,
    )
    axes.set_yticks(range(len(shown)), [_visible(cue) for cue, _ in shown], fontsize=10)
    for label, (cue, _) in zip(axes.get_yticklabels(), shown, strict=True):
        label.set_color("black" if decisions[cue].selected else "#6b7075")
        label.set_fontweight("bold" if decisions[cue].selected else "normal")
    axes.set_ylim(-0.7, max(3, len(shown)) - 0.3)
    axes.set_xlabel("mean margin after the cue, with its 95 % bootstrap interval over traces")
    axes.grid(axis="x", color="#eceff1", zorder=0)
    _count_column(axes, shown)
    figure.suptitle(title, x=0.02, ha="left", fontsize=12, fontweight="bold")
    _legend(axes)
    save(figure, path)


def draw_trace(
    texts: Sequence[str],
    margins: Sequence[float],
    handed: Sequence[TokenRange],
    title: str,
    path: Path,
) -> None:
    """Draw the margin of each token of one trace, cue segments shaded, as a PNG.

    Args:
        texts: The tokens; what exceeds the rows of the picture is left out.
        margins: One a token.
        handed: The tokens that the small model would write.
        title: Of the picture.
        path: The file to make or replace.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    n = min(len(texts), TOKENS_PER_ROW * MAX_ROWS)
    n_rows = -(-n // TOKENS_PER_ROW)
    figure = blank(13.0, 1.0 + 1.9 * n_rows)
    panels = figure.subplots(n_rows, 1, squeeze=False)[:, 0]
    for row, axes in enumerate(panels):
        first = row * TOKENS_PER_ROW
        _draw_row(axes, texts[first : first + TOKENS_PER_ROW], margins[first:n], first, handed)
    figure.suptitle(title, x=0.02, ha="left", fontsize=12, fontweight="bold")
    save(figure, path)


def pick_trace(handed: Sequence[Sequence[TokenRange]], lengths: Sequence[int]) -> int:
    """The number of the trace worth looking at: most segments among those that fit the rows."""
    fits = [i for i, n in enumerate(lengths) if n <= TOKENS_PER_ROW * MAX_ROWS]
    return max(fits or range(len(lengths)), key=lambda i: (len(handed[i]), -lengths[i], -i))


def _draw_cue(axes: Axes, y: int, statistics: CueStatistics, color: str) -> None:
    assert statistics.ci_low is not None
    assert statistics.ci_high is not None
    axes.plot([statistics.ci_low, statistics.ci_high], [y, y], color=color, linewidth=2.2, zorder=2)
    axes.plot([statistics.mean_margin or 0.0], [y], "o", color=color, markersize=6, zorder=3)


def _count_column(axes: Axes, shown: Sequence[tuple[str, CueStatistics]]) -> None:
    place = axes.get_yaxis_transform()
    style: dict[str, Any] = {"transform": place, "ha": "right", "fontsize": 9, "color": "#6b7075"}
    for y, (_, statistics) in enumerate(shown):
        axes.text(1.09, y, f"{statistics.occurrences:,}", va="center", **style)
    axes.text(1.09, max(3, len(shown)) - 0.3, "times", va="bottom", **style)


def _legend(axes: Axes) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=color, marker="o", linewidth=2.2, label=label)
        for color, label in ((SELECTED, "selected"), (OTHER, "not selected"))
    ]
    axes.legend(handles=handles, loc="lower right", frameon=True, edgecolor="none", fontsize=9)


def _draw_row(
    axes: Axes,
    texts: Sequence[str],
    margins: Sequence[float],
    first: int,
    handed: Sequence[TokenRange],
) -> None:
    unframe(axes)
    for tokens in handed:
        start = max(tokens.first - first, 0)
        end = min(tokens.last - first, len(texts) - 1)
        if start <= end:
            axes.axvspan(start - 0.5, end + 0.5, color=SHADE, zorder=0, linewidth=0)
    inside = [any(a <= first + i <= b for a, b in handed) for i in range(len(texts))]
    colors = [SELECTED if is_small else OTHER for is_small in inside]
    axes.bar(range(len(texts)), margins[: len(texts)], color=colors, width=0.8, zorder=2)
    axes.set_xticks(range(len(texts)), [_visible(t) for t in texts], rotation=90, fontsize=8)
    axes.set_xlim(-0.7, TOKENS_PER_ROW - 0.3)
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0, 0.5, 1], ["0", "½", "1"], fontsize=8)
    axes.set_ylabel("margin", fontsize=8)
    axes.tick_params(axis="x", length=0)


def _visible(text: str) -> str:
    """Blanks at the ends shown; dollar signs are no mathematics."""
    shown = text.replace("\n", "⏎").replace("$", r"\$")
    stripped = shown.strip(" ")
    after = "␣" * (len(shown) - len(shown.rstrip(" "))) if stripped else "␣"
    return stripped + after
