"""The wheel holds what an installed package needs, and says what it is."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from configparser import ConfigParser
from importlib.util import find_spec
from pathlib import Path

import pytest

import relaygen_lmeval

ROOT = Path(__file__).parents[1]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling, the builder, is missing"),
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    done = subprocess.run(
        [*command, "--wheel-dir", str(folder), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        yield archive


def _metadata(wheel: zipfile.ZipFile, name: str) -> str:
    folder = f"relaygen_lmeval-{relaygen_lmeval.__version__}.dist-info"
    return wheel.read(f"{folder}/{name}").decode("utf-8")


@pytest.mark.parametrize("folder", ["cues", "task_configs"])
def test_cues_and_tasks_lie_inside_the_package(wheel: zipfile.ZipFile, folder: str):
    files = {
        p.relative_to(ROOT).as_posix()
        for p in (ROOT / folder).rglob("*")
        if p.suffix in (".json", ".yaml", ".py") or p.name.endswith("_yaml")
    }

    assert files
    assert {f"relaygen_lmeval/{name}" for name in files} <= set(wheel.namelist())


def test_the_demo_travels_with_the_package(wheel: zipfile.ZipFile):
    demo = ROOT / "relaygen_lmeval" / "demo"
    files = {p.relative_to(ROOT).as_posix() for p in demo.rglob("*") if p.is_file()}

    assert {name for name in files if "__pycache__" not in name} <= set(wheel.namelist())


def test_the_parts_of_the_page_travel_with_the_package(wheel: zipfile.ZipFile):
    names = {f"relaygen_lmeval/report/{name}" for name in ("page.html.j2", "page.css", "viewer.js")}

    assert names <= set(wheel.namelist())


def test_the_startup_file_lies_in_the_root_and_is_one_harmless_line(wheel: zipfile.ZipFile):
    line = wheel.read("relaygen_lmeval.pth").decode("ascii")

    assert line.count("\n") == 1
    assert line.startswith("import ")  # what makes `site` run it
    code = f"import sys; sys.path.clear(); sys.modules['relaygen_lmeval'] = None\n{line}"
    subprocess.run([sys.executable, "-S", "-c", code], check=True)  # the package is gone


def test_nothing_else_lies_in_the_root(wheel: zipfile.ZipFile):
    roots = {name.split("/")[0] for name in wheel.namelist()}
    info = f"relaygen_lmeval-{relaygen_lmeval.__version__}.dist-info"

    assert roots == {"relaygen_lmeval", "relaygen_lmeval.pth", info}
    assert not [name for name in wheel.namelist() if "__pycache__" in name]


def test_entry_points_name_the_model_and_the_command(wheel: zipfile.ZipFile):
    entry_points = ConfigParser()
    entry_points.read_string(_metadata(wheel, "entry_points.txt"))

    assert dict(entry_points["lm_eval.models"]) == {
        "relaygen": "relaygen_lmeval.harness.model:RelayLM"
    }
    assert dict(entry_points["console_scripts"]) == {"relaygen": "relaygen_lmeval.cli:main"}


def test_metadata_tells_the_version_and_the_licence(wheel: zipfile.ZipFile):
    lines = _metadata(wheel, "METADATA").splitlines()

    assert f"Version: {relaygen_lmeval.__version__}" in lines
    assert "License-Expression: Apache-2.0" in lines
    assert "relaygen_lmeval/py.typed" in wheel.namelist()
