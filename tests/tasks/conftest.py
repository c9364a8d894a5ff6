"""The harness on made-up data sets: in this process, from a folder that has them all."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import datasets
import lm_eval.tasks.manager
import pytest
from lm_eval.__main__ import cli_evaluate
from lm_eval.tasks import TaskManager

from relaygen_lmeval._hook import install
from tests.tasks.layout import lay_out


@pytest.fixture(scope="package")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with all data sets; what `datasets` makes of them stays in it."""
    root = lay_out(tmp_path_factory.mktemp("hub"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", root / ".cache")
        patch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)
        # Looking through the harness's own thousands of tasks takes seconds, each time.
        patch.setattr(lm_eval.tasks.manager, "__file__", str(root / "none.py"))
        yield root


@pytest.fixture(autouse=True)
def _in_the_hub(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(hub)


@pytest.fixture(scope="package")
def manager(hub: Path) -> TaskManager:
    """Knows our tasks alone."""
    install()
    return TaskManager()


@pytest.fixture
def stock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Mapping[str, Any]]:
    """The stock command with these arguments; gives its `results.json`."""
    install()

    def run(*arguments: str, output: str = "results") -> Mapping[str, Any]:
        folder = tmp_path / output
        monkeypatch.setattr(sys, "argv", ["pytest", *arguments, "--output_path", str(folder)])
        for name in ("TOKENIZERS_PARALLELISM", "HF_DATASETS_TRUST_REMOTE_CODE"):
            monkeypatch.setenv(name, os.environ.get(name, "false"))
        cli_evaluate()
        newest = max(folder.rglob("results*.json"), key=lambda file: file.name)
        return {**json.loads(newest.read_text()), "file": newest}

    return run
