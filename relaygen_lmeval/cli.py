"""The command `relaygen`: what surrounds a run of `lm_eval --model relaygen`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console

from relaygen_lmeval.errors import RelayGenError

app = typer.Typer(
    help="A large and a small model relay one generation, scored by lm-evaluation-harness.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@app.command(name="eval", context_settings=_PASS_ON)
def evaluate(context: typer.Context) -> None:
    """Run lm_eval with `--model relaygen` known, whatever its version; takes lm_eval's arguments.

    The same as `lm_eval ...` after installation; for where the start-up hook is switched off.
    """
    from lm_eval.__main__ import cli_evaluate

    from relaygen_lmeval._hook import install

    install()
    sys.argv = ["lm_eval", *_with_model(context.args)]
    cli_evaluate()


@app.command()
def path(what: Annotated[str, typer.Argument(help="demo, cues or tasks")]) -> None:
    """Print a folder that comes with the package: the embedded pair, the cues or the tasks."""
    from relaygen_lmeval.demo import demo_path
    from relaygen_lmeval.tasks import cues_path, tasks_path

    folders = {"demo": demo_path, "cues": cues_path, "tasks": tasks_path}
    if what not in folders:
        raise typer.BadParameter(f"'{what}' is not one of {', '.join(folders)}")
    typer.echo(folders[what]())


@app.command()
def summary(
    folders: Annotated[list[Path], typer.Argument(help="Folders with results*.json of lm_eval")],
    baseline: Annotated[str, typer.Option(help="Policy that the speedup is over")] = "large",
) -> None:
    """Compare runs: accuracy with its error, latency, speedup and share of the large model."""
    from relaygen_lmeval.report.summary import read_runs, summary_table

    Console().print(summary_table(read_runs(folders), baseline))


@app.command()
def bench(
    model_args: Annotated[
        str, typer.Option("--model_args", help="As for lm_eval; empty: the embedded pair")
    ] = "",
    n: Annotated[int, typer.Option(help="Problems")] = 20,
    batch: Annotated[str, typer.Option(help="Batch sizes, with commas")] = "1,8",
    repeats: Annotated[int, typer.Option(help="Measured rounds, after one to warm up")] = 5,
    max_gen_toks: Annotated[int, typer.Option(help="Bound of generated tokens")] = 400,
    compiled: Annotated[bool, typer.Option(help="Take compile=on along, and the floor")] = True,
    json_file: Annotated[
        Optional[Path],  # noqa: UP045  typer reads annotations on Python 3.10
        typer.Option("--json", help="Write all figures here"),
    ] = None,
) -> None:
    """Time stock hf against the policies, side by side in one process, on the same problems."""
    from relaygen_lmeval.bench import bench_table, run_bench

    report = run_bench(
        model_args,
        n=n,
        batches=[int(size) for size in batch.split(",")],
        repeats=repeats,
        max_gen_toks=max_gen_toks,
        compiled=compiled,
    )
    if json_file:
        json_file.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    Console().print(bench_table(report))


def _with_model(arguments: list[str]) -> list[str]:
    """Name the model where the user, running an evaluation, has not."""
    if arguments[:1] in (["ls"], ["validate"]):
        return arguments
    run = arguments[:1] if arguments[:1] == ["run"] else []
    named = any(a == "--model" or a.startswith(("--model=", "--config")) for a in arguments)
    return arguments if named else [*run, "--model", "relaygen", *arguments[len(run) :]]


def main() -> None:
    """Run the command; errors of ours are one line and exit code 2."""
    try:
        app()
    except RelayGenError as error:
        Console(stderr=True).print(f"relaygen: {error}", style="red", markup=False, highlight=False)
        sys.exit(2)
