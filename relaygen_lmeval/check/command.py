"""The command `relaygen check`: a line for everything that a run needs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

_STYLES = {"ok": "green", "note": "yellow", "fail": "bold red"}


def check(
    model_args: Annotated[
        str, typer.Option("--model_args", help="As for lm_eval; empty: the embedded pair")
    ] = "",
    batch_size: Annotated[str, typer.Option("--batch_size", help="As for lm_eval")] = "1",
) -> None:
    """Try all that a run needs, in a line each: ok, or what to do. Exit code 1 where it would fail."""
    from lm_eval.utils import simple_parse_args_string
    from transformers.utils.logging import disable_progress_bar

    from relaygen_lmeval.check.findings import look

    disable_progress_bar()  # type: ignore[no-untyped-call]
    options = simple_parse_args_string(model_args)
    options.setdefault("batch_size", int(batch_size) if batch_size.isdigit() else batch_size)
    console = Console(soft_wrap=True)
    failed = False
    for finding in look(options):
        failed |= finding.state == "fail"
        line = Text.assemble(
            (f"{finding.state:<5}", _STYLES[finding.state]), f"{finding.name:<12} ", finding.text
        )
        console.print(line)
    sys.exit(int(failed))
