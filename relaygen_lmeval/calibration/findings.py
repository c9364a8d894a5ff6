"""What a calibration found, for a terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from relaygen_lmeval.calibration.command import Calibration
from relaygen_lmeval.calibration.settings import Settings
from relaygen_lmeval.calibration.show import shown
from relaygen_lmeval.core.types import Role


def print_calibration(found: Calibration, settings: Settings, console: Console) -> None:
    """Print the table of all candidates that occur, and what to expect of the selected."""

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    measured, expected, step_s = found.measured, found.expected, found.step_s
    say(
        f"{measured.n_traces} traces, {measured.n_tokens:,} tokens of reasoning, global mean margin "
        f"{measured.global_mean:.4f}"
    )
    console.print(calibration_table(found))
    say("Not selected:")
    for cue, decision in found.decisions.items():
        if measured.cues[cue].occurrences and not decision.selected:
            say(f"  {shown(cue)}: {decision.reason}")
    n_unseen = sum(not s.occurrences for s in measured.cues.values())
    say(f"  {n_unseen} of {len(measured.cues)} candidates do not occur in the traces")
    say(
        f"Expected: the small model writes {expected.handed_over:.1%} of the reasoning's tokens, "
        f"the large one {expected.share:.1%} of all; with steps of "
        f"{1000 * step_s[Role.LARGE]:.2f} ms (large) and {1000 * step_s[Role.SMALL]:.2f} ms (small)"
        f" that is {expected.speedup:.2f} times as fast as the large model alone."
    )
    say(f"Written: {settings.output}")


def calibration_table(found: Calibration) -> Table:
    """The statistics of all candidates that occur, the selected first."""
    measured = found.measured
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("cue", no_wrap=True)
    for name in ("n", "traces", "mean", "difference", "95 %", "share", "kept"):
        table.add_column(name, justify="right", no_wrap=True)
    occurring = [(cue, s) for cue, s in measured.cues.items() if s.occurrences]
    occurring.sort(
        key=lambda item: (not found.decisions[item[0]].selected, -(item[1].difference or 0))
    )
    for cue, s in occurring:
        is_selected = found.decisions[cue].selected
        error = "-" if s.difference_error is None else f"{s.difference_error:.3f}"
        table.add_row(
            shown(cue),
            str(s.occurrences),
            str(s.traces),
            f"{s.mean_margin:.3f}",
            f"{s.difference:+.3f}±{error}",
            "-" if s.ci_low is None else f"{s.ci_low:.3f}-{s.ci_high:.3f}",
            f"{s.share:.1%}",
            "yes" if is_selected else "no",
            style="bold" if is_selected else None,
        )
    return table
