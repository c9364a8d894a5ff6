"""What the package promises by name; a change here is a change for users."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import relaygen_lmeval
from relaygen_lmeval import errors

ROOT = Path(__file__).parents[1]


def test_public_names_are_pinned():
    assert relaygen_lmeval.__all__ == ["CueTable", "Relay", "RelayResult", "__version__"]
    assert set(relaygen_lmeval.__all__) <= set(dir(relaygen_lmeval))


@pytest.mark.parametrize("name", relaygen_lmeval.__all__)
def test_every_public_name_is_there(name: str):
    assert getattr(relaygen_lmeval, name) is not None


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="has no attribute 'Really'"):
        _ = relaygen_lmeval.Really


def test_error_tree_is_as_drawn():
    tree = {
        name: cls.__bases__[0].__name__
        for name, cls in inspect.getmembers(errors, inspect.isclass)
        if cls.__module__ == errors.__name__
    }

    assert sorted(tree) == errors.__all__
    assert tree == {
        "RelayGenError": "Exception",
        "CalibrationError": "RelayGenError",
        "TraceError": "CalibrationError",
        "ConfigError": "RelayGenError",
        "CueFileError": "RelayGenError",
        "EngineError": "RelayGenError",
        "ServerError": "EngineError",
        "RequestError": "EngineError",
        "FailedRequests": "EngineError",
        "JournalError": "RelayGenError",
        "ReportError": "RelayGenError",
        "SweepError": "RelayGenError",
    }


def test_cuefile_names_are_pinned():
    assert importlib.import_module("relaygen_lmeval.cuefile").__all__ == [
        "CueFile",
        "candidate_forms",
        "cue_file_for",
        "find_cue_file",
        "list_cue_files",
        "read_cue_file",
        "write_cue_file",
    ]


def test_import_of_the_package_loads_nothing_heavy():
    code = """
import sys
before = set(sys.modules)
import relaygen_lmeval
print(*sorted(set(sys.modules) - before))
"""
    command = [sys.executable, "-S", "-c", code]  # no site: nothing of it is loaded already
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert out.split() == ["relaygen_lmeval"]
