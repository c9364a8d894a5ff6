"""The rings import inwards only, and importing the package costs nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import relaygen_lmeval

PACKAGE = Path(relaygen_lmeval.__file__).parent
CORE = sorted((PACKAGE / "core").glob("*.py"))


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.stem)
def test_the_core_knows_the_standard_library_and_itself(path):
    foreign = {
        name
        for name in imports(path)
        if name.split(".")[0] not in sys.stdlib_module_names
        and not name.startswith("relaygen_lmeval.core")
    }

    assert foreign == set()


def test_engines_know_no_harness():
    for path in (PACKAGE / "engines").rglob("*.py"):
        assert not {name for name in imports(path) if name.startswith("lm_eval")}


def test_importing_the_package_loads_neither_torch_nor_the_harness():
    code = (
        "import sys, relaygen_lmeval, relaygen_lmeval.core.relay, relaygen_lmeval.options.config, "
        "relaygen_lmeval.runner, relaygen_lmeval.journal\n"
        "print([m for m in ('torch', 'lm_eval', 'transformers') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "[]"
