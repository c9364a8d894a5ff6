"""The comparison as a table: for a terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table

from relaygen_lmeval.report.compare import Comparison, Line
from relaygen_lmeval.report.intervals import Interval

_NONE = "-"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table for people.

    Attributes:
        heading: May name the baseline as `{baseline}`.
        meaning: In words, below the table.
        wide: Left out where a terminal has no room for it.
    """

    heading: str
    meaning: str
    wide: bool = False


COLUMNS = (
    Column("accuracy, %", "mean with its standard error, clustered by problem"),
    Column("less {baseline}, points", "paired by problem, with the 95 % interval of a bootstrap"),
    Column("p", "exact sign test over problems, McNemar's with one answer a problem", wide=True),
    Column("E2E s", "mean of a request from end to end"),
    Column("p50", "its median", wide=True),
    Column("p95", "its 95th percentile", wide=True),
    Column("TTFT s", "mean time to the first token", wide=True),
    Column("tok/s", "tokens of whole runs over their time", wide=True),
    Column("speedup", "{timed_by} of {baseline} over this one's, with the 95 % interval"),
    Column("share", "the large model's part of the tokens"),
    Column("handoffs", "of a thousand tokens", wide=True),
    Column("truncated", "texts whose reasoning or answer the budget cut", wide=True),
)


def terminal_table(comparison: Comparison, width: int = 80) -> Table:
    """One task for a terminal.

    Args:
        comparison: Of the task.
        width: Columns of the terminal; a narrow one gets the main figures alone,
            and speedups without their interval.
    """
    narrow = width < 150
    shown = [i for i, column in enumerate(COLUMNS) if not (narrow and column.wide)]
    table = Table(
        title=title(comparison),
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    table.add_column("policy", overflow="fold")
    headings = _headings(comparison)
    cells = [_cells(line, brief=narrow) for line in comparison.lines]
    for i in shown:
        table.add_column(headings[i], justify="right", no_wrap=True)
    for line, row in zip(comparison.lines, cells, strict=True):
        table.add_row(line.name, *(row[i] for i in shown))
    return table


def markdown_table(comparison: Comparison) -> str:
    """One task as Markdown, with the meaning of the columns."""
    headings = ["policy", *_headings(comparison)]
    rows = [
        f"| {' | '.join(headings)} |",
        f"|---|{'---:|' * (len(headings) - 1)}",
        *(f"| {' | '.join(map(_escaped, table_row(line)))} |" for line in comparison.lines),
    ]
    return f"## {title(comparison)}\n\n" + "\n".join(rows) + f"\n\n{legend(comparison)}\n"


def csv_table(comparisons: Sequence[Comparison]) -> str:
    """All tasks in one file, a line a contestant; times in seconds, shares and metrics in [0, 1]."""
    rows = [_plain(comparison, line) for comparison in comparisons for line in comparison.lines]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def title(comparison: Comparison) -> str:
    """Task, metric, and how many problems."""
    return f"{comparison.task}: {comparison.metric}, {comparison.n_problems} problems"


def table_row(line: Line) -> list[str]:
    """The name and all cells."""
    return [line.name, *_cells(line)]


def table_headings(comparison: Comparison) -> list[str]:
    """Of `table_row`."""
    return ["policy", *_headings(comparison)]


def legend(comparison: Comparison) -> str:
    """What the columns mean, in one sentence each, and which problems are compared."""
    base = comparison.baseline or "the baseline"
    said = [
        f"{heading}: {column.meaning.format(baseline=base, timed_by=comparison.timed_by)}"
        for heading, column in zip(_headings(comparison), COLUMNS, strict=True)
    ]
    text = "; ".join(said)
    seeds = max((line.n_runs for line in comparison.lines), default=1)
    pooled = f" Up to {seeds} runs a policy, of different seeds, are pooled." if seeds > 1 else ""
    note = f" {comparison.note[0].upper()}{comparison.note[1:]}." if comparison.note else ""
    return (
        text[0].upper()
        + text[1:]
        + ". The intervals are over problems and know nothing of how busy the machine was."
        + pooled
        + note
    )


def _headings(comparison: Comparison) -> list[str]:
    base = comparison.baseline or "baseline"
    return [column.heading.format(baseline=base) for column in COLUMNS]


def _cells(line: Line, *, brief: bool = False) -> list[str]:
    t, paired = line.totals, line.paired
    return [
        _accuracy(line),
        _interval(paired.difference, "{:+.1f}", 100) if paired else "",
        _p(paired.p) if paired else "",
        _number(t.get("e2e_mean_s"), "{:.3f}"),
        _number(t.get("e2e_p50_s"), "{:.3f}"),
        _number(t.get("e2e_p95_s"), "{:.3f}"),
        _number(t.get("ttft_mean_s"), "{:.3f}"),
        _number(t.get("tokens_per_s"), "{:,.0f}"),
        _speedup(line.speedup, brief),
        _number(t.get("share"), "{:.2f}"),
        _number(t.get("handoffs_per_1000"), "{:.1f}"),
        _number(t.get("unfinished"), "{:.0f}"),
    ]


def _accuracy(line: Line) -> str:
    if line.accuracy is None:
        return _NONE
    value, stderr = line.accuracy
    return f"{100 * value:.1f}" + (f" ± {100 * stderr:.1f}" if stderr is not None else "")


def _interval(interval: Interval, form: str, times: float) -> str:
    value, low, high = (times * v for v in (interval.value, interval.low, interval.high))
    if low == high:
        return form.format(value)
    return f"{form.format(value)} ({form.format(low)} to {form.format(high)})"


def _speedup(interval: Interval | None, brief: bool) -> str:
    if interval is None:
        return _NONE
    return f"{interval.value:.2f}" if brief else _interval(interval, "{:.2f}", 1)


def _p(p: float) -> str:
    return "<0.0001" if p < 0.0001 else f"{p:.2g}"


def _number(value: float | None, form: str) -> str:
    return _NONE if value is None else form.format(value)


def _escaped(cell: str) -> str:
    return cell.replace("|", r"\|")


def _plain(comparison: Comparison, line: Line) -> dict[str, object]:
    paired, speedup = line.paired, line.speedup
    return {
        "task": comparison.task,
        "policy": line.name,
        "metric": comparison.metric,
        "problems": comparison.n_problems,
        "runs": line.n_runs,
        "texts": line.n_texts,
        "accuracy": line.accuracy.value if line.accuracy else None,
        "accuracy_se": line.accuracy.stderr if line.accuracy else None,
        "baseline": comparison.baseline,
        "difference": paired.difference.value if paired else None,
        "difference_low": paired.difference.low if paired else None,
        "difference_high": paired.difference.high if paired else None,
        "better": paired.better if paired else None,
        "worse": paired.worse if paired else None,
        "p": paired.p if paired else None,
        "speedup_of": comparison.timed_by,
        "speedup": speedup.value if speedup else None,
        "speedup_low": speedup.low if speedup else None,
        "speedup_high": speedup.high if speedup else None,
        **{name: value for name, value in line.totals.items() if name != "n"},
    }
