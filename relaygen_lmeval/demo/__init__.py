"""A tiny large/small pair and a word-problem task, to see the relay work without a download.

Standard library only: `train` is the one module of this folder that needs torch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal


def demo_path() -> Path:
    """Give the folder that holds the models `large/` and `small/` and the `problems/`."""
    return Path(__file__).parent


def load_problems(split: Literal["test", "calibration"]) -> list[dict[str, str | int]]:
    """Read the published problems of a split.

    Args:
        split: `"test"` (500 problems) or `"calibration"` (200).

    Returns:
        Rows with `question`, `answer` (text), `steps` (1 to 3) and `reasoning`.
    """
    text = (demo_path() / "problems" / f"{split}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]
