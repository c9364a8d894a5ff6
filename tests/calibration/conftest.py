"""Traces of the embedded pair, made once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from relaygen_lmeval.calibration.command import Calibration, calibrate
from relaygen_lmeval.calibration.settings import Settings

TASK = "relaygen_arithmetic_calibration"


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("calibration")
    return Settings(
        output=folder / "mine.json",
        tasks=(TASK,),
        limit=6,
        repeats=2,
        log_dir=folder / "log",
        min_occurrences=2,
        rule="mean",
    )


@pytest.fixture(scope="session")
def made(settings: Settings) -> Calibration:
    """A calibration that was never interrupted."""
    return calibrate(settings)


@pytest.fixture(scope="session")
def journal(settings: Settings, made: Calibration) -> Path:
    assert settings.log_dir is not None
    return settings.log_dir / "journal.jsonl"


@pytest.fixture
def again(settings: Settings, journal: Path, tmp_path: Path) -> Settings:
    """The same calibration, from its finished traces, written elsewhere."""
    return replace(settings, output=tmp_path / "mine.json", traces=journal, tasks=())
