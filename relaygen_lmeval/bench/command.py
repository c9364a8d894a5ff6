"""`relaygen bench`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from rich.console import Console
from rich.table import Table

from relaygen_lmeval.errors import ConfigError

bench_app = typer.Typer(help="Measure speed, as ratios within one process.")

PairOption = Annotated[
    str, typer.Option("--model_args", help="As for lm_eval; empty: the embedded pair")
]
ProblemsOption = Annotated[int, typer.Option(help="Problems, or recorded traces")]
JsonOption = Annotated[
    Optional[Path],  # noqa: UP045  typer reads annotations on Python 3.10
    typer.Option("--json", help="Write all figures here"),
]
FileOption = Optional[Path]  # noqa: UP045


@bench_app.callback(invoke_without_command=True)
def bench(
    context: typer.Context,
    model_args: PairOption = "",
    n: ProblemsOption = 20,
    batch: Annotated[str, typer.Option(help="Batch sizes, with commas")] = "1,4,16",
    repeats: Annotated[int, typer.Option(help="Measured rounds, after one to warm up")] = 5,
    max_gen_toks: Annotated[int, typer.Option(help="Bound of generated tokens")] = 400,
    compiled: Annotated[
        bool, typer.Option(help="Compile our short reads; stock hf runs as it is")
    ] = True,
    floor: Annotated[
        bool, typer.Option(help="Measure bare forwards, to say how far above them we are")
    ] = True,
    json_file: JsonOption = None,
    picture: Annotated[
        FileOption, typer.Option(help="Draw accuracy against speedup here, .png")
    ] = None,
    shape: Annotated[
        FileOption,
        typer.Option(help="Large model's config.json: time random weights of this shape instead"),
    ] = None,
    small_shape: Annotated[FileOption, typer.Option(help="The small model's config.json")] = None,
    replay: Annotated[
        FileOption, typer.Option(help="With --shape: the journal whose segments are replayed")
    ] = None,
    device: Annotated[str, typer.Option(help="With --shape: where the weights lie")] = "cpu",
    dtype: Annotated[str, typer.Option(help="With --shape: their type")] = "float32",
) -> None:
    """Time stock hf against the policies, side by side in one process, on the same problems.

    With --shape, --small-shape and --replay: what a pair of these shapes would gain on this
    device, before it is downloaded.
    """
    if context.invoked_subcommand:
        return
    sizes = _sizes("--batch", batch)
    if shape or small_shape or replay:
        report, table = _replayed(
            shape, small_shape, replay, n, sizes, repeats, device, dtype, compiled
        )
    else:
        report, table = _raced(model_args, n, sizes, repeats, max_gen_toks, compiled, floor)
        if picture:
            from relaygen_lmeval.bench.show import draw

            draw(report, picture)
    _write_json(report, json_file)
    _print(table)


@bench_app.command(name="servers")
def bench_servers(
    model_args: Annotated[
        str, typer.Option("--model_args", help="With engine=server and both URLs, or engine=vllm")
    ],
    turns: Annotated[int, typer.Option(help="Handoffs of each text")] = 8,
    tokens: Annotated[int, typer.Option(help="Tokens of each turn")] = 16,
    lengths: Annotated[str, typer.Option(help="Tokens of text before, with commas")] = "500,8000",
    at_once: Annotated[
        str, typer.Option("--at_once", help="Texts under way at once, with commas")
    ] = "1,16",
    repeats: Annotated[int, typer.Option(help="Measured rounds, after one to warm up")] = 5,
    json_file: JsonOption = None,
) -> None:
    """Time handoffs over servers against a client that sends the whole text anew each time."""
    from relaygen_lmeval.bench.server_figures import server_table
    from relaygen_lmeval.bench.servers import Plan, run_server_bench

    plan = Plan(turns, tokens, _sizes("--lengths", lengths), _sizes("--at_once", at_once), repeats)
    report = run_server_bench(model_args, plan)
    _write_json(report, json_file)
    _print(server_table(report))


@bench_app.command(name="calibrate")
def bench_calibrate(
    model_args: PairOption = "", n: ProblemsOption = 40, json_file: JsonOption = None
) -> None:
    """Time scoring the margins of finished traces against generating them at batch 8."""
    from relaygen_lmeval.bench.run import run_calibration_bench
    from relaygen_lmeval.bench.show import calibration_table

    report = run_calibration_bench(model_args, n=n)
    _write_json(report, json_file)
    _print(calibration_table(report))


def _raced(
    model_args: str,
    n: int,
    sizes: tuple[int, ...],
    repeats: int,
    max_gen_toks: int,
    compiled: bool,
    floor: bool,
) -> tuple[dict[str, Any], Any]:
    from relaygen_lmeval.bench.run import Plan, run_bench
    from relaygen_lmeval.bench.show import bench_table

    plan = Plan(model_args, n, sizes, repeats, max_gen_toks, compiled, floor)
    with Console(stderr=True).status("loading") as status:
        report = run_bench(plan, status.update)
    return report, bench_table(report)


def _replayed(
    shape: Path | None,
    small_shape: Path | None,
    journal: Path | None,
    n: int,
    sizes: tuple[int, ...],
    repeats: int,
    device: str,
    dtype: str,
    compiled: bool,
) -> tuple[dict[str, Any], Any]:
    if not (shape and small_shape and journal):
        raise ConfigError("--shape, --small-shape and --replay belong together: give all three")
    from relaygen_lmeval.bench.replay import Replay, replay_table, run_replay

    report = run_replay(
        Replay(shape, small_shape, journal, n, sizes, repeats, device, dtype, compiled)
    )
    return report, replay_table(report)


def _sizes(option: str, given: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(size) for size in given.split(","))
    except ValueError:
        sizes = (0,)
    if min(sizes) < 1:
        raise ConfigError(f"{option} {given} must be whole numbers from 1 on, with commas between")
    return sizes


def _print(table: Table) -> None:
    """To a file or a pipe too, without cutting columns to the 80 that rich takes there."""
    console = Console()
    if not console.is_terminal:
        console.width = 160
    console.print(table)


def _write_json(report: dict[str, Any], path: Path | None) -> None:
    if path:
        path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
