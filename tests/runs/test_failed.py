"""A request that fails alone: the others are finished, it is named, and the exit code tells."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from relaygen_lmeval.demo import demo_path, load_problems
from tests.runs.command import exit_code, requests, start

N = 24
TASK = ("--tasks", "relaygen_arithmetic", "--limit", str(N), "--batch_size", "8")


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A large model whose vector of the name in the first problem is NaN."""
    folder = tmp_path / "broken"
    shutil.copytree(demo_path() / "large", folder)
    weights = load_file(folder / "model.safetensors")
    embedding = weights["model.embed_tokens.weight"]
    weights["lm_head.weight"] = embedding.clone()  # else that logit would be NaN in all texts
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    (token,) = AutoTokenizer.from_pretrained(folder).encode("Cora")
    embedding[token] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_one_request_of_many_fails_by_name(tmp_path, broken):
    named = [i for i, p in enumerate(load_problems("test")[:N]) if "Cora" in str(p["question"])]
    options = {"pretrained": broken, "small": demo_path() / "small", "cues": "demo"}

    code = exit_code(start(tmp_path / "run", *TASK, **options))

    assert code == 1
    assert named == [0]
    said = (tmp_path / "run" / "stderr.txt").read_text()
    assert "1 of 24 requests failed: relaygen_arithmetic 0; the first: request 0, large" in said
    assert "not finite" in said
    assert f"To go on, give the same command with resume={tmp_path / 'run' / 'log'}" in said
    assert "Traceback" not in said
    done = {record["doc_id"] for record in requests(tmp_path / "run")}
    assert done == set(range(N)) - {0}
