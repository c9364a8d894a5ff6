"""The command `relaygen`: what surrounds a run of `lm_eval --model relaygen`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console

from relaygen_lmeval.bench.command import bench_app
from relaygen_lmeval.check.command import check
from relaygen_lmeval.errors import RelayGenError
from relaygen_lmeval.report.command import report
from relaygen_lmeval.report.estimate_command import estimate
from relaygen_lmeval.sweep.command import sweep

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
def join(
    folder: Annotated[Path, typer.Argument(help="Folder with results*.json and samples_*.jsonl")],
    journal: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="The journal.jsonl, where it has moved"),
    ] = None,
) -> None:
    """Join lm_eval's samples with the journal into FOLDER/joined.parquet and joined.jsonl."""
    from relaygen_lmeval.report.join import join_results, write_table

    rows = join_results(folder, journal)
    alone = sum(row.get("e2e_s") is None for row in rows)
    for path in write_table(rows, folder / "joined"):
        typer.echo(f"{path}: {len(rows)} rows, {alone} of them not in the journal")


app.add_typer(bench_app, name="bench")
app.command()(sweep)
app.command()(check)
app.command()(report)
app.command()(estimate)


@app.command()
def serve(
    pretrained: Annotated[str, typer.Option(help="Large model; empty: the embedded pair")] = "",
    small: Annotated[str, typer.Option(help="Small model")] = "",
    server: Annotated[
        str, typer.Option(help="vllm, sglang or llama.cpp; default: the first installed")
    ] = "",
    server_args: Annotated[
        str, typer.Option("--server_args", help="More arguments for both servers, in quotes")
    ] = "",
    small_server_args: Annotated[
        str, typer.Option("--small_server_args", help="More for the small model's alone")
    ] = "",
    server_python: Annotated[
        str, typer.Option("--server_python", help="The Python that has the server's package")
    ] = "",
) -> None:
    """Start two real servers, print the lm_eval line that uses them, stop both on Ctrl-C."""
    from relaygen_lmeval.models.serve import serve_pair

    serve_pair(
        pretrained,
        small,
        server or None,
        server_args=server_args,
        small_server_args=small_server_args,
        python=server_python or None,
        say=typer.echo,
    )


def _with_model(arguments: list[str]) -> list[str]:
    """Name the model where the user, running an evaluation, has not."""
    if arguments[:1] in (["ls"], ["validate"]):
        return arguments
    run = arguments[:1] if arguments[:1] == ["run"] else []
    named = any(a == "--model" or a.startswith(("--model=", "--config")) for a in arguments)
    return arguments if named else [*run, "--model", "relaygen", *arguments[len(run) :]]


@app.command()
def calibrate(
    output: Annotated[Path, typer.Option(help="Cue file to write, .json; pictures go beside it")],
    model_args: Annotated[
        str, typer.Option("--model_args", help="As for lm_eval; empty: the embedded pair")
    ] = "",
    tasks: Annotated[str, typer.Option(help="Generative tasks to reason on, with commas")] = "",
    limit: Annotated[Optional[int], typer.Option(help="Documents of each task")] = None,  # noqa: UP045
    repeats: Annotated[int, typer.Option(help="Sampled traces of each document")] = 4,
    batch_size: Annotated[int, typer.Option("--batch_size", help="Traces under way at once")] = 8,
    num_fewshot: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--num_fewshot", help="Examples in the prompt; default: as the task says"),
    ] = None,
    apply_chat_template: Annotated[
        Optional[bool],  # noqa: UP045
        typer.Option(
            "--apply_chat_template/--no-apply_chat_template",
            help="Default: where the large model has one",
        ),
    ] = None,
    gen_kwargs: Annotated[
        str,
        typer.Option(
            "--gen_kwargs", help="Default: do_sample=True,temperature=0.6,top_p=0.95,top_k=20"
        ),
    ] = "",
    log_dir: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--log_dir", help="Journal of the traces; a run that was cut goes on there"),
    ] = None,
    traces: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="A finished journal.jsonl of policy=large, instead of making traces"),
    ] = None,
    margins_by: Annotated[
        str, typer.Option(help="Whose margins: small, large, or both (of each token the lesser)")
    ] = "small",
    candidates: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="One a line, or a JSON list; default: the forms of the paper's 25 words"),
    ] = None,
    discover: Annotated[
        bool, typer.Option(help="Try what the traces' own sentences and clauses begin with, too")
    ] = False,
    rule: Annotated[
        str,
        typer.Option(
            help="ci: surely above the global mean; paper: by one standard error; mean: at all"
        ),
    ] = "ci",
    alpha: Annotated[
        float, typer.Option(help="Of ci: how likely any cue may be selected for nothing")
    ] = 0.05,
    min_occurrences: Annotated[
        int, typer.Option(help="Of ci and --discover: fewer are too few")
    ] = 10,
    seed: Annotated[int, typer.Option(help="Of the sampling and of the bootstrap")] = 1234,
    match: Annotated[
        str, typer.Option(help="word, or substring as in the published code")
    ] = "word",
    overwrite: Annotated[bool, typer.Option(help="Replace an output that exists")] = False,
    pictures: Annotated[bool, typer.Option(help="Draw OUTPUT.png and OUTPUT_trace.png")] = True,
) -> None:
    """Find the cues of a pair: traces, margins, statistics, selection, cue file, pictures.

    relaygen calibrate --tasks relaygen_arithmetic_calibration --limit 160 --output cues/mine.json

    Use the result with `--model_args cues=cues/mine.json`.
    """
    from lm_eval.utils import simple_parse_args_string

    from relaygen_lmeval.calibration.command import calibrate as run_calibration
    from relaygen_lmeval.calibration.findings import print_calibration
    from relaygen_lmeval.calibration.settings import Settings

    values = {name: value for name, value in locals().items() if name in Settings.__annotations__}
    values["tasks"] = tuple(filter(None, tasks.split(",")))
    values["gen_kwargs"] = simple_parse_args_string(gen_kwargs)
    settings = Settings(**values)
    print_calibration(run_calibration(settings), settings, Console())


cues_app = typer.Typer(help="Look at cue files.", no_args_is_help=True)
app.add_typer(cues_app, name="cues")


@cues_app.command(name="list")
def list_cues() -> None:
    """List the shipped cue files."""
    from relaygen_lmeval.calibration.show import files_table

    Console().print(files_table())


@cues_app.command()
def show(name: Annotated[str, typer.Argument(help="A shipped name or a path")]) -> None:
    """Show the cues of a file, where they come from, and what was measured."""
    from relaygen_lmeval.calibration.show import print_cue_file

    print_cue_file(name, Console())


@cues_app.command()
def diff(
    a: Annotated[str, typer.Argument(help="A shipped name or a path")],
    b: Annotated[str, typer.Argument(help="Another")],
) -> None:
    """Compare two cue files: who has which cue, and with what margin."""
    from relaygen_lmeval.calibration.show import print_difference

    print_difference(a, b, Console())


@app.command()
def ablations(
    model_args: Annotated[
        str, typer.Option("--model_args", help="As for lm_eval; empty: the embedded pair")
    ] = "",
    task: Annotated[str, typer.Option(help="Scored task")] = "relaygen_arithmetic",
    calibration_task: Annotated[
        str, typer.Option(help="Task of the traces")
    ] = "relaygen_arithmetic_calibration",
    limit: Annotated[int, typer.Option(help="Scored problems")] = 500,
    documents: Annotated[int, typer.Option(help="Documents of the traces")] = 160,
    repeats: Annotated[int, typer.Option(help="Traces of each document")] = 4,
    batch_size: Annotated[int, typer.Option("--batch_size", help="Requests at once")] = 8,
    timed: Annotated[int, typer.Option(help="Problems that are timed, one at a time")] = 50,
    log_dir: Annotated[
        Path, typer.Option("--log_dir", help="Journal of the traces; a run that was cut goes on")
    ] = Path("relaygen_logs/ablations"),
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Write OUTPUT.md and OUTPUT.json"),
    ] = None,
) -> None:
    """Compare ways to find and match cues: accuracy with its error, share, speedup over large."""
    from relaygen_lmeval.calibration.ablations import Plan, ablations_markdown, run_ablations

    values = {name: value for name, value in locals().items() if name in Plan.__annotations__}
    report = run_ablations(Plan(**values))
    text = ablations_markdown(report)
    if output:
        output.with_suffix(".md").write_text(text, encoding="utf-8")
        content = json.dumps(report, indent=2, ensure_ascii=False)
        output.with_suffix(".json").write_text(f"{content}\n", encoding="utf-8")
    typer.echo(text)


def main() -> None:
    """Run the command; errors of ours are one line and exit code 2."""
    try:
        app()
    except RelayGenError as error:
        Console(stderr=True).print(f"relaygen: {error}", style="red", markup=False, highlight=False)
        sys.exit(2)
