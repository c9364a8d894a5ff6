"""What a run was made with: models, versions, options; complete enough to submit."""

from __future__ import annotations

import hashlib
import platform
import re
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from relaygen_lmeval.core.types import Role
from relaygen_lmeval.cuefile import CueFile
from relaygen_lmeval.options.checks import without_secrets
from relaygen_lmeval.options.config import RelayConfig

_PACKAGES = (
    "relaygen-lmeval",
    "lm_eval",
    "torch",
    "transformers",
    "tokenizers",
    "accelerate",
    "math-verify",
)
# Keys among the arguments of servers: `--api-key SECRET`, `--hf-token=SECRET`.
_KEYS = re.compile(r"(--[\w-]*(?:key|token|password|secret)(?:[ =]+))\S+", re.IGNORECASE)
_EDGE = 1 << 20  # bytes read at either end of a weight file


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that can change a text, a time or a score."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def describe_config(config: RelayConfig) -> dict[str, Any]:
    """The resolved options, ready for JSON."""
    described = asdict(config)
    for name in ("base_url", "small_base_url"):
        described[name] = without_secrets(described[name])
    for name in ("server_args", "small_server_args"):
        described[name] = _KEYS.sub(r"\1***", described[name])
    for name in ("large_options", "small_options"):
        described[name] = {k: _plain(k, v) for k, v in described[name].items()}
    return described


def describe_cues(cue_file: CueFile | None) -> dict[str, Any] | None:
    """The cues of a run and the hash of their file."""
    if cue_file is None:
        return None
    return {
        "name": cue_file.name,
        "sha256": cue_file.sha256,
        "match": cue_file.match,
        "cues": list(cue_file.cues),
    }


def describe_model(role: Role, info: dict[str, Any], name: str) -> dict[str, Any]:
    """What the harness knows of a model, and a fingerprint where it is a local folder."""
    described = {key.removeprefix("model_"): _plain(key, value) for key, value in info.items()}
    folder = Path(name).expanduser()
    if folder.is_dir():
        described["sha"] = f"local-{fingerprint(folder)}"
    return {"role": role.value, "name": name, **described}


def fingerprint(folder: Path) -> str:
    """A hash of a model folder: its configuration, and size and edges of its weight files."""
    digest = hashlib.sha256()
    files = [*folder.glob("*.json"), *folder.glob("*.safetensors"), *folder.glob("*.gguf")]
    for path in sorted([*files, *folder.glob("*.bin")]):
        digest.update(f"{path.name}:{path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            digest.update(file.read(_EDGE))
            file.seek(max(0, path.stat().st_size - _EDGE))
            digest.update(file.read(_EDGE))
    return digest.hexdigest()[:16]


def _plain(name: str, value: Any) -> Any:
    if name == "token":  # a secret stays one
        return "***"
    return value if isinstance(value, str | int | float | bool | None) else str(value)
