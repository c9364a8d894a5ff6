"""Which pictures a report has, what they are called, and how to read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from relaygen_lmeval.report import charts
from relaygen_lmeval.report.charts import Texts
from relaygen_lmeval.report.compare import Comparison, common_problems
from relaygen_lmeval.report.gather import Contestant, Gathered, Text
from relaygen_lmeval.sweep.plan import folder_name


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that was drawn.

    Attributes:
        task: What it shows.
        title: In a few words.
        caption: How to read it.
        path: The PNG.
    """

    task: str
    title: str
    caption: str
    path: Path


def draw_pictures(
    gathered: Gathered, comparisons: Sequence[Comparison], folder: Path
) -> list[Picture]:
    """Draw all pictures for which there is something to show.

    Args:
        gathered: The texts.
        comparisons: Of each task.
        folder: Where the PNGs go; it exists.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    drawn = []
    for comparison in comparisons:
        texts = _timed(comparison.task, gathered.contestants)
        for kind in _KINDS:
            path = folder / f"{folder_name(comparison.task)}-{kind.name}.png"
            if kind.draw(comparison, texts, path):
                drawn.append(Picture(comparison.task, kind.title, kind.caption, path))
    return drawn


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    title: str
    caption: str
    draw: Callable[[Comparison, Texts, Path], bool]


_KINDS = (
    _Kind(
        "accuracy",
        "Accuracy against speedup",
        "Bars: 95 % intervals over problems. Dashed: policies that no other beats in both.",
        charts.draw_accuracy,
    ),
    _Kind(
        "time",
        "Where the time of a request goes",
        "Catch-up: the forward over the prompt, or over what the other model wrote. Requests of a "
        "batch share forwards, so these are seconds of waiting for them, not of computing. Other: "
        "what no segment accounts for, such as forwards of other requests.",
        charts.draw_time,
    ),
    _Kind(
        "share",
        "Who writes, along the reasoning",
        "The large model's part of the tokens in each twentieth of the reasoning.",
        charts.draw_share,
    ),
    _Kind(
        "lengths",
        "How long the segments are",
        "Segments of the reasoning in tokens, on a logarithmic axis; policies that relay.",
        charts.draw_lengths,
    ),
    _Kind(
        "cues",
        "Which cues fired",
        "Beside each bar: mean tokens of the other model's segment after the cue, how many of "
        "these came to the end of their sentence, and how many of the texts with the cue are right.",
        charts.draw_cue_use,
    ),
)


def _timed(task: str, contestants: Sequence[Contestant]) -> dict[str, list[Text]]:
    """Texts with a request, on the problems that all have."""
    here = [one for one in contestants if one.of(task)]
    common = set(common_problems(task, here))
    texts = {
        one.name: [t for t in one.of(task) if t.record and t.problem in common] for one in here
    }
    return {name: of for name, of in texts.items() if of}
