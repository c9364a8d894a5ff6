"""Runs of a relay as the harness and the journal leave them, small enough to compute by hand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

DATE_S = 1_700_000_000.0
TIME = "2023-11-14T22:13:25+00:00"  # five seconds later

Write = Callable[..., Path]


def segment(role: str | None, n: int, text: str, **more: Any) -> dict[str, Any]:
    return {
        "role": role,
        "phase": "reasoning",
        "n_tokens": n,
        "n_chars": len(text),
        "ended_by": "boundary",
        "matched": None,
        "catch_up_tokens": 5,
        "given_back_tokens": 0,
        "wait_s": 0.01,
        "prefill_s": 0.02,
        "decode_s": 0.1,
        "drafts": None,
        "token_ids": list(range(n)),
        **more,
    }


def request(doc: int, seed: int = 1, e2e_s: float = 1.0, **more: Any) -> dict[str, Any]:
    """A request of three segments."""
    segments = more.pop("segments", None) or [
        segment("large", 6, "First, 2 + 2 = 4. So,", ended_by="cue", matched="So,"),
        segment("small", 3, " that is 4.\n"),
        segment("small", 1, "</think>", ended_by="think_end", matched="</think>"),
        segment("small", 2, f"\n\n\\boxed{{{doc}}}", phase="answer", ended_by="eos"),
    ]
    n_large = sum(s["n_tokens"] for s in segments if s["role"] == "large")
    n = sum(s["n_tokens"] for s in segments)
    return {
        "kind": "request",
        "run": 1,
        "task": "t",
        "doc_id": doc,
        "repeat": 0,
        "doc_hash": f"hash-{doc}",
        "seed": 100 * seed + doc,
        "sampling": {"temperature": 0.6},
        "prompts": {"large": f"What is problem {doc}?"},
        "prompt_tokens": {"large": 7, "small": 7},
        "max_tokens": 64,
        "max_answer_tokens": 16,
        "n_tokens": n,
        "n_large_tokens": n_large,
        "n_small_tokens": n - n_large,
        "handoffs": 2,
        "started_s": float(doc),
        "ttft_s": 0.1,
        "e2e_s": e2e_s,
        "flags": [],
        "drafts": None,
        "segments": segments,
        "text": more.pop("text", f"First, 2 + 2 = 4. So, that is 4.\n</think>\n\n\\boxed{{{doc}}}"),
        "answer": f"\\boxed{{{doc}}}",
        **more,
    }


def header(policy: str, seed: int = 1, **options: Any) -> dict[str, Any]:
    config = {"policy": policy, "seed": seed, "policy_options": {}, **options}
    models = [{"role": "large", "name": "L"}, {"role": "small", "name": "S"}]
    return {"config": config, "policy": policy, "cues": None, "models": models, "versions": {}}


def lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def write_run(tmp_path: Path) -> Write:
    """Writes a run: journal, results and samples in one folder, as a sweep does."""

    def write(
        name: str,
        policy: str,
        records: Sequence[Mapping[str, Any]],
        verdicts: Sequence[float] | None = None,
        *,
        seed: int = 1,
        date_s: float = DATE_S,
        **options: Any,
    ) -> Path:
        folder = tmp_path / name
        head = header(policy, seed, **options)
        journal = folder / "journal.jsonl"
        lines(journal, [{"kind": "header", "schema": 1, "run": 1, "time": TIME, **head}, *records])
        if verdicts is None:
            return folder
        config = {"model": "relaygen", "relay": {**head, "journal": str(journal)}}
        results = json.dumps({"config": config, "date": date_s})
        (folder / "results_2023.json").write_text(results)
        samples = [sample(r, v) for r, v in zip(records, verdicts, strict=True)]
        lines(folder / "samples_t_2023.jsonl", samples)
        return folder

    return write


def sample(record: Mapping[str, Any], verdict: float) -> dict[str, Any]:
    prompt = record["prompts"]["large"]
    return {
        "doc_id": record["doc_id"],
        "doc": {},
        "target": "7",
        "arguments": {"gen_args_0": {"arg_0": prompt}},
        "resps": [[record["answer"]]],
        "filter": "none",
        "metrics": ["exact_match"],
        "doc_hash": record["doc_hash"],
        "prompt_hash": hashlib.sha256(prompt.encode()).hexdigest(),
        "exact_match": verdict,
    }
