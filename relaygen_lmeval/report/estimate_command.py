"""`relaygen estimate`: a recorded run with other step times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from relaygen_lmeval.errors import ReportError

if TYPE_CHECKING:
    from relaygen_lmeval.report.estimate import Costs, Devices, Work

_POSITIVE, _ANY = 1e-6, 0.0


def estimate(
    journal: Annotated[Path, typer.Argument(help="A journal.jsonl, or the folder that has it")],
    large_ms: Annotated[
        float, typer.Option(min=_POSITIVE, help="A step of the large model, one row, milliseconds")
    ],
    small_ms: Annotated[float, typer.Option(min=_POSITIVE, help="The same of the small model")],
    share: Annotated[
        Optional[float],  # noqa: UP045  typer reads annotations on Python 3.10
        typer.Option(
            min=0, max=1, help="The large model's part of the forwards, if it were another"
        ),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Requests at once")] = 1,
    growth: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="What a further row adds to a step: 0 nothing, 1 a whole step"
        ),
    ] = 0.0,
    large_read_ms: Annotated[
        float, typer.Option(min=_ANY, help="What reading 1,000 tokens adds to a step, milliseconds")
    ] = 0.0,
    small_read_ms: Annotated[
        float, typer.Option(min=_ANY, help="The same of the small model")
    ] = 0.0,
) -> None:
    """Say what another pair, share or batch size would give, from the segments of a journal.

    relaygen estimate relaygen_logs/RUN --large-ms 30 --small-ms 4 --batch 16
    """
    from relaygen_lmeval.report.estimate import Costs, work_of

    records, small_drafts, policy = _read(journal)
    work = work_of(records, small_drafts=small_drafts)
    costs = Costs(large_ms, small_ms, large_read_ms, small_read_ms, growth)
    rows = {
        "large": work.alone("large"),
        "small": work.alone("small"),
        f"{policy}, as recorded": work,
        **({} if share is None else {f"{policy}, share {share:g}": work.at_share(share)}),
    }
    console = Console()
    console.print(_table(rows, costs, batch, f"{len(records)} requests, {batch} at once"))
    console.print(_assumptions(costs, batch, share), markup=False, highlight=False)


def _read(journal: Path) -> tuple[list[dict[str, object]], bool, str]:
    """The requests, whether the small model drafted, and the policy."""
    from relaygen_lmeval.journal import files, key, read_journal

    paths = files(journal) if journal.is_dir() else [journal]
    everything = [record for path in paths for record in read_journal(path)]
    requests = {key(r): r for r in everything if r["kind"] == "request"}
    if not requests:
        raise ReportError(f"{journal} has no finished request; name a journal.jsonl, or its folder")
    header = next(r for r in everything if r["kind"] == "header")
    drafts = header.get("config", {}).get("speculative") == "small"
    return list(requests.values()), drafts, str(header.get("policy", "?"))


def _table(rows: dict[str, Work], costs: Costs, batch: int, title: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("devices")
    table.add_column("policy", overflow="fold")
    for heading in ("share", "E2E s", "tok/s", "speedup"):
        table.add_column(heading, justify="right")
    kinds: tuple[Devices, ...] = ("one", "two") if batch > 1 else ("one",)
    for devices in kinds:
        for name, work in rows.items():
            table.add_row(devices, name, *_cells(work, rows["large"], costs, batch, devices))
        table.add_section()
    return table


def _cells(work: Work, large: Work, costs: Costs, batch: int, devices: Devices) -> list[str]:
    from relaygen_lmeval.report.estimate import e2e_s

    mine_s, base_s = (e2e_s(of, costs, batch, devices) for of in (work, large))
    share = f"{work.large / (work.large + work.small):.2f}"
    return [
        share,
        f"{mine_s:.3f}",
        f"{batch * work.n_tokens / mine_s:,.0f}",
        f"{base_s / mine_s:.2f}",
    ]


def _assumptions(costs: Costs, batch: int, share: float | None) -> str:
    """What the figures take for granted, in words."""
    read = (costs.large_read_ms, costs.small_read_ms)
    reading = ", however long it is"
    if any(read):
        reading = f" and, a thousand tokens, {read[0]:g} ms (large) or {read[1]:g} ms (small)"
    said = [
        "every forward costs its model's step, whatever the length of the text before it",
        f"reading the prompt or the other's text costs one step{reading}",
        "a model alone writes as many tokens as were recorded, and reads the prompt alone",
        "handoffs, sampling and the harness cost nothing",
    ]
    if batch > 1:
        more = f"each further row adds {100 * costs.growth:g} % to a step"
        said.append(f"{batch} requests are under way all the time, and {more}")
        said.append("on one device the models step in turn and every row waits for both")
        said.append("on two devices each model steps on its own")
    if share is not None:
        said.append(
            "the share is that of the forwards; at another one there are as many handoffs, and texts are as long"
        )
    return f"Assumed: {'; '.join(said)}. Accuracy is not estimated."
