"""Wider heads change no function."""

from __future__ import annotations

import json

import torch
from transformers import AutoModelForCausalLM

from relaygen_lmeval.demo import demo_path
from relaygen_lmeval.demo.widen import widen, write_wide_pair


def test_the_wide_model_gives_the_same_logits(tmp_path):
    write_wide_pair(tmp_path)

    ids = torch.randint(3, 500, (2, 150), generator=torch.Generator().manual_seed(0))
    for name in ("large", "small"):
        narrow, wide = (
            AutoModelForCausalLM.from_pretrained(folder / name, dtype=torch.float32).eval()
            for folder in (demo_path(), tmp_path)
        )
        with torch.inference_mode():
            difference = (narrow(ids).logits - wide(ids).logits).abs().max()
        assert wide.config.head_dim == 32
        assert difference < 1e-3


def test_a_model_that_is_wide_enough_is_copied(tmp_path):
    widen(demo_path() / "large", tmp_path, head_dim=16)

    assert json.loads((tmp_path / "config.json").read_text())["head_dim"] == 32
