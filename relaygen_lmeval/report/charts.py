"""The charts of a report; each function draws one as a PNG, if there is anything to show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from relaygen_lmeval.report.canvas import blank, save, unframe
from relaygen_lmeval.report.compare import Comparison, Line
from relaygen_lmeval.report.gather import Text
from relaygen_lmeval.report.segments import (
    N_BINS,
    TIMES,
    CueUse,
    cue_use,
    lengths,
    share_along,
    time_spent,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LARGE, SMALL, INK = "#c2410c", "#0b7285", "#495057"
_TIME_COLORS = (LARGE, SMALL, "#e8a33d", "#7c4dff", "#b39ddb", "#ced4da", "#868e96")
_Z = 1.96  # two sides of 95 %
_MAX_PANELS, _MAX_CUES, _N_COLORS = 9, 15, 10

Texts = Mapping[str, Sequence[Text]]  # of each contestant, those with a request


def draw_accuracy(comparison: Comparison, texts: Texts, path: Path) -> bool:
    """Accuracy against speedup with both intervals, and the line of those that none beats in both."""
    shown = [line for line in comparison.lines if line.accuracy and line.speedup]
    points = [
        (s.value, 100 * a.value) for a, s in ((p.accuracy, p.speedup) for p in shown) if a and s
    ]
    if not shown:
        return False
    figure = blank(8.0, 4.4)
    axes = figure.subplots()
    unframe(axes)
    axes.plot(
        *zip(*(points[i] for i in pareto(points)), strict=True),
        color=INK,
        linewidth=1,
        linestyle="--",
        zorder=1,
        label="no policy is better in both",
    )
    for number, line in enumerate(shown):
        _draw_point(axes, line, number)
    axes.set_xlabel(f"speedup: {comparison.timed_by} of {comparison.baseline} over the policy's")
    axes.set_ylabel(f"{comparison.metric}, %")
    axes.set_title(f"{comparison.task}, {comparison.n_problems} problems", loc="left")
    axes.grid(color="#eceff1", zorder=0)
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    save(figure, path)
    return True


def pareto(points: Sequence[tuple[float, float]]) -> list[int]:
    """Numbers of the points that no other one beats in both, from left to right.

    Examples:
        >>> pareto([(1.0, 0.9), (2.0, 0.8), (1.5, 0.7)])
        [0, 1]
    """
    best = [
        i
        for i, (x, y) in enumerate(points)
        if not any(a >= x and b >= y and (a, b) != (x, y) for a, b in points)
    ]
    return sorted(best, key=lambda i: points[i])


def draw_time(comparison: Comparison, texts: Texts, path: Path) -> bool:
    """Seconds of a request by what they were spent on, a bar a contestant."""
    if not texts:
        return False
    spent = {name: time_spent([t.record for t in of if t.record]) for name, of in texts.items()}
    figure = blank(8.0, 1.5 + 0.38 * len(spent))
    axes = figure.subplots()
    unframe(axes)
    left = np.zeros(len(spent))
    for kind, color in zip(TIMES, _TIME_COLORS, strict=True):
        widths = np.array([of[kind] for of in spent.values()])
        if widths.any():
            axes.barh(range(len(spent)), widths, left=left, color=color, label=kind, height=0.7)
        left += widths
    _name_rows(axes, list(spent))
    axes.set_xlabel("mean seconds of a request")
    figure.legend(loc="outside upper left", ncols=len(TIMES), frameon=False, fontsize=9)
    save(figure, path)
    return True


def draw_share(comparison: Comparison, texts: Texts, path: Path) -> bool:
    """The large model's share along the reasoning, a line a contestant that relays."""
    shares = {n: share_along(t.record for t in of if t.record) for n, of in texts.items()}
    if not shares:
        return False
    figure = blank(8.0, 3.6)
    axes = figure.subplots()
    unframe(axes)
    at = (np.arange(N_BINS) + 0.5) * 100 / N_BINS
    for number, (name, share) in enumerate(shares.items()):
        style = "-" if number < _N_COLORS else "--"
        axes.plot(
            at,
            100 * share,
            style,
            color=f"C{number % _N_COLORS}",
            label=_plain(name),
            linewidth=1.6,
        )
    axes.set_ylim(-3, 103)
    axes.set_xlim(0, 100)
    axes.set_xlabel("position in the reasoning, % of its tokens")
    axes.set_ylabel("written by the large model, %")
    axes.grid(color="#eceff1")
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    save(figure, path)
    return True


def draw_lengths(comparison: Comparison, texts: Texts, path: Path) -> bool:
    """Histograms of the lengths of the reasoning's segments, a panel a contestant with both."""
    both = {
        name: [lengths((t.record for t in of if t.record), role) for role in ("large", "small")]
        for name, of in texts.items()
    }
    shown = {name: of for name, of in both.items() if all(of)}
    if not shown:
        return False
    longest = max(n for of in shown.values() for role in of for n in role)
    edges = np.unique(np.geomspace(1, longest + 1, 25).round()).tolist()
    with _panels(path, dict.fromkeys(shown, 2.0), columns=3) as panels:
        for axes, of in zip(panels, shown.values(), strict=False):
            for values, color, role in zip(of, (LARGE, SMALL), ("large", "small"), strict=True):
                axes.hist(values, edges, color=color, alpha=0.6, label=role)
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:.0f}")
            axes.set_xlabel("tokens of a segment", fontsize=8)
            axes.set_ylabel("segments", fontsize=8)
        panels[0].legend(frameon=False, fontsize=8)
    return True


def draw_cue_use(comparison: Comparison, texts: Texts, path: Path) -> bool:
    """How often each cue fired, and what came of it, a panel a contestant."""
    uses = {n: cue_use((t.record, t.correct) for t in of if t.record) for n, of in texts.items()}
    shown = {name: of[:_MAX_CUES] for name, of in uses.items() if of}
    if not shown:
        return False
    heights = {name: 0.9 + 0.22 * len(of) for name, of in shown.items()}
    with _panels(path, heights, columns=2) as panels:
        for axes, (name, of) in zip(panels, shown.items(), strict=False):
            per_100 = [100 * use.fired / len(texts[name]) for use in of]
            axes.barh(range(len(of)), per_100, color=LARGE, height=0.65)
            for y, (x, use) in enumerate(zip(per_100, of, strict=True)):
                axes.text(x, y, f"  {_fared(use)}", va="center", fontsize=7, color=INK)
            axes.set_xlim(0, 1.9 * max(per_100))
            _name_rows(axes, [use.cue for use in of])
            axes.set_ylim(max(len(of), 4) - 0.4, -0.6)
            axes.set_xlabel("fired in 100 texts", fontsize=8)
    return True


def _draw_point(axes: Axes, line: Line, number: int) -> None:
    assert line.speedup is not None
    assert line.accuracy is not None
    x, stderr = line.speedup, line.accuracy.stderr
    axes.errorbar(
        x.value,
        100 * line.accuracy.value,
        xerr=[[max(0.0, x.value - x.low)], [max(0.0, x.high - x.value)]],
        yerr=None if stderr is None else 100 * _Z * stderr,
        fmt="o" if number < _N_COLORS else "s",
        color=f"C{number % _N_COLORS}",
        label=_plain(line.name),
        capsize=2,
        zorder=2,
    )


def _fared(use: CueUse) -> str:
    right = "" if use.correct is None else f", {100 * use.correct:.0f} % right"
    return f"{use.n_tokens:.0f} tok, {100 * use.to_boundary:.0f} % ended{right}"


@contextmanager
def _panels(path: Path, heights: Mapping[str, float], *, columns: int) -> Iterator[list[Axes]]:
    """Panels of these titles and heights, saved when they are drawn; too many are left out."""
    names = list(heights)[:_MAX_PANELS]
    columns = min(columns, len(names))
    rows = [names[i : i + columns] for i in range(0, len(names), columns)]
    tall = [max(heights[name] for name in row) for row in rows]
    figure = blank(max(4.5, 9.0 * columns / (3 if columns == 3 else 2)), sum(tall))
    panels = list(figure.subplots(len(rows), columns, squeeze=False, height_ratios=tall).flat)
    for axes in panels[len(names) :]:
        axes.remove()
    for axes, name in zip(panels, names, strict=False):
        unframe(axes)
        axes.set_title(_plain(name), loc="left", fontsize=9)
        axes.tick_params(labelsize=8)
    yield panels[: len(names)]
    save(figure, path)


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [_plain(name) for name in names], fontsize=9)
    axes.invert_yaxis()


def _plain(text: str) -> str:
    """Dollar signs are no mathematics, and ends of lines are shown."""
    return text.replace("$", r"\$").replace("\n", "⏎")
