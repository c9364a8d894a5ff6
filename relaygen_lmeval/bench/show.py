"""The figures of a bench, for a terminal and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from relaygen_lmeval.report.canvas import blank, save, unframe

_HEADINGS = ("tok/s", "E2E s", "times hf", "right %", "share", "accept", "over floor", "= hf")


def bench_table(report: dict[str, Any]) -> Table:
    """The figures for a terminal."""
    settings = report["settings"]
    table = Table(
        title=f"{settings['n']} problems, {settings['repeats']} rounds, {settings['device']}, "
        f"{settings['torch_threads']} threads, compile {'on' if settings['compile'] else 'off'}; "
        "median (least-most)",
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("what", no_wrap=True)
    for heading in _HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for size, contestants in report["batches"].items():
        for name, figures in contestants.items():
            table.add_row(str(size), name, *_cells(figures, settings["n"]))
        table.add_section()
    return table


def calibration_table(report: dict[str, Any]) -> Table:
    """The speed of scoring margins, for a terminal."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("what", "tok/s", "times generating"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    table.add_row("generating, batch 8", f"{report['generate']:.0f}", "1.0")
    for role in ("small", "large"):
        if role in report:
            ratio = f"{report[f'ratio_{role}']:.1f}"
            table.add_row(f"margins by {role}", f"{report[role]:.0f}", ratio)
    return table


def draw(report: dict[str, Any], path: Path) -> None:
    """Draw accuracy against speedup, with both errors, a panel for each batch size.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    batches = report["batches"]
    figure = blank(4.6 * len(batches), 4.2)
    panels = figure.subplots(1, len(batches), sharey=True, squeeze=False)[0]
    everyone = dict.fromkeys(name for contestants in batches.values() for name in contestants)
    colors = {name: f"C{n}" for n, name in enumerate(everyone)}
    for axes, (size, contestants) in zip(panels, batches.items(), strict=True):
        unframe(axes)
        for name, figures in contestants.items():
            _draw_one(axes, name, figures, colors[name])
        axes.set_title(f"batch {size}", loc="left")
        axes.set_xlabel("times as fast as stock hf")
        axes.grid(axis="x", alpha=0.3)
    panels[0].set_ylabel("right, %")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    save(figure, path)


def _draw_one(axes: Any, name: str, figures: dict[str, Any], color: str) -> None:
    ratio = figures["ratio"]
    across = [[ratio["median"] - ratio["min"]], [ratio["max"] - ratio["median"]]]
    axes.errorbar(
        ratio["median"],
        100 * figures["accuracy"],
        xerr=across,
        yerr=100 * figures["accuracy_se"],
        fmt="o",
        color=color,
        label=name,
        capsize=2,
    )


def _cells(figures: dict[str, Any], n: int) -> list[str]:
    accepted = figures["mean_accepted"] if figures.get("drafted") else None
    return [
        f"{figures['tokens_per_s']:.0f}",
        f"{figures['e2e_s']:.3f}" if "e2e_s" in figures else "-",
        _range(figures["ratio"]),
        f"{100 * figures['accuracy']:.0f} ± {100 * figures['accuracy_se']:.0f}",
        f"{figures['share']:.2f}" if "share" in figures else "-",
        f"{accepted:.2f}" if accepted else "-",
        _range(figures["over_floor"]) if "over_floor" in figures else "-",
        f"{figures['same_text_as_hf']}/{n}",
    ]


def _range(spread: dict[str, float]) -> str:
    return f"{spread['median']:.2f} ({spread['min']:.2f}-{spread['max']:.2f})"
