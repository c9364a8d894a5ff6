"""Writes the embedded pair with wider attention heads: the same functions, for servers that want so.

vLLM on a CPU computes no attention of heads of 24 numbers, which the small model has. Zeros make
them 32 wide; what depends on the width (rotary frequencies, norms, the scale of the scores) is
set so that nothing else changes, up to the rounding of floats:

    python -m relaygen_lmeval.demo.widen FOLDER    # writes FOLDER/large and FOLDER/small
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from relaygen_lmeval.demo import demo_path

HEAD_DIM = 32


def write_wide_pair(folder: Path) -> Path:
    """Write both models below `folder`; returns it."""
    for name in ("large", "small"):
        widen(demo_path() / name, folder / name)
    return folder


def widen(source: Path, target: Path, head_dim: int = HEAD_DIM) -> None:
    """Copy a Qwen3 model with heads of at least `head_dim`."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    narrow = config["head_dim"]
    if narrow >= head_dim:
        return
    weights = {
        name: _widen(name, weight, narrow, head_dim)
        for name, weight in load_file(source / "model.safetensors").items()
    }
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    rope = config["rope_parameters"]
    # Frequency i is theta ** (-2i / width): it must not change with the width.
    rope["rope_theta"] = rope["rope_theta"] ** (head_dim / narrow)
    config["head_dim"] = head_dim
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _widen(name: str, weight: torch.Tensor, narrow: int, wide: int) -> torch.Tensor:
    part = name.rsplit(".", 2)[-2]
    if part in ("q_proj", "k_proj", "v_proj"):
        return _spread(weight.float(), narrow, wide).to(weight.dtype)
    if part == "o_proj":
        return _spread(weight.float().T, narrow, wide).T.contiguous().to(weight.dtype)
    if part in ("q_norm", "k_norm"):
        # Both norms' mean of squares runs over the zeros, too, which scales the scores by
        # wide / narrow; they are divided by sqrt(wide) instead of sqrt(narrow). Left to mend:
        scale = (narrow / wide) ** 0.5 if part == "k_norm" else 1.0
        return _spread(weight.float() * scale, narrow, wide)
    return weight


def _spread(rows: torch.Tensor, narrow: int, wide: int) -> torch.Tensor:
    """Put zeros behind both halves of each head, for rotation pairs number i with i + width / 2."""
    rest = rows.shape[1:]
    heads = rows.reshape(-1, 2, narrow // 2, *rest)
    padded = rows.new_zeros(heads.shape[0], 2, wide // 2, *rest)
    padded[:, :, : narrow // 2] = heads
    return padded.reshape(-1, *rest)


if __name__ == "__main__":
    print(write_wide_pair(Path(sys.argv[1])))
