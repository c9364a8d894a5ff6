"""`relaygen report`: runs side by side, in the terminal and as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer
from rich.console import Console

from relaygen_lmeval.errors import ReportError

if TYPE_CHECKING:
    from relaygen_lmeval.report.compare import Comparison
    from relaygen_lmeval.report.pictures import Picture


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Results of lm_eval, folders of relaygen sweep, journals; any mix"),
    ],
    baseline: Annotated[
        Optional[str],  # noqa: UP045  typer reads annotations on Python 3.10
        typer.Option(
            help="The run that the others are compared with; default: large, or the first"
        ),
    ] = None,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Folder of the files; default: relaygen_report"),
    ] = None,
    large_ms: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            min=1e-6,
            help="A step of the large model, milliseconds; with --small-ms: speedups by counted "
            "forwards, one request at a time, and not by the clock",
        ),
    ] = None,
    small_ms: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(min=1e-6, help="The same of the small model"),
    ] = None,
    pictures: Annotated[bool, typer.Option(help="Draw the pictures")] = True,
    page: Annotated[bool, typer.Option(help="Make report.html, to look at every text")] = True,
) -> None:
    """Compare runs on the same problems: tables, pictures, and a page with every text.

    relaygen report relaygen_logs/sweep-policies_sampled

    Seeds of one setting are pooled. The texts need --log_samples of lm_eval to be right or wrong.
    """
    from relaygen_lmeval.report.compare import compare
    from relaygen_lmeval.report.estimate import Costs
    from relaygen_lmeval.report.gather import gather
    from relaygen_lmeval.report.tables import terminal_table

    if (large_ms is None) != (small_ms is None):
        raise ReportError("--large-ms and --small-ms go together; give both, or none")
    costs = Costs(large_ms, small_ms) if large_ms and small_ms else None
    gathered = gather(folders)
    comparisons = compare(gathered, baseline, costs)
    console = Console()
    for note in gathered.notes:
        console.print(f"note: {note}", style="yellow", markup=False, highlight=False)
    for comparison in comparisons:
        console.print(terminal_table(comparison, console.width))
        if comparison.note:
            console.print(comparison.note, markup=False, highlight=False)
    folder = output or Path("relaygen_report")
    folder = output or Path("relaygen_report")
    written = _write_tables(comparisons, folder)
    drawn: list[Picture] = []
    if pictures:
        from relaygen_lmeval.report.pictures import draw_pictures

        drawn = draw_pictures(gathered, comparisons, folder)
        written += [picture.path for picture in drawn]
    if page:
        from relaygen_lmeval.report.page import render_page

        written.append(folder / "report.html")
        written[-1].write_text(render_page(gathered, comparisons, drawn), encoding="utf-8")
    for path in written:
        console.print(f"written: {path}", markup=False, highlight=False)


def _write_tables(comparisons: Sequence[Comparison], folder: Path) -> list[Path]:
    """The tables as files; gives their paths."""
    from relaygen_lmeval.report.tables import csv_table, markdown_table

    texts = {
        "report.md": "\n".join(map(markdown_table, comparisons)),
        "report.csv": csv_table(comparisons),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ReportError(
            f"--output {folder} cannot be written ({error.strerror}); choose another folder"
        ) from error
    return [folder / name for name in texts]
