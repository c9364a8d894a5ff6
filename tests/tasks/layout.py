"""A handful of made-up rows of every data set, in its own columns, where `datasets` finds them.

A folder named like a data set below the current one is read before the hub.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Rows = Sequence[Mapping[str, Any]]
LANGUAGES = ("bn", "de", "en", "es", "fr", "ja", "ru", "sw", "te", "th", "zh")

GSM8K: Rows = [
    {
        "question": f"Ana has {n} books and buys 3. How many books has she?",
        "answer": f"She has {n} + 3 = <<{n}+3={n + 3}>>{n + 3} books.\n#### {n + 3:,}",
    }
    for n in (4, 12, 9, 1200)
]
GSM8K_PT: Rows = [
    {
        "question": f"A Ana tem {n} livros e compra 3. Quantos livros tem?",
        "answer": f"Tem {n} + 3 = {n + 3} livros.\n#### {n + 3}",
    }
    for n in (4, 12)
]
MATH500: Rows = [
    {
        "problem": rf"What is $\frac{{{n}}}{{2}}$?",
        "solution": rf"Halve it: $\boxed{{\frac{{{n}}}{{2}}}}$.",
        "answer": rf"\frac{{{n}}}{{2}}",
        "subject": "Algebra",
        "level": 1,
        "unique_id": f"test/algebra/{n}.json",
    }
    for n in (1, 3, 5)
]
AIME24: Rows = [
    {"ID": f"2024-I-{n}", "Problem": f"Find ${n}+200$.", "Solution": "Add.", "Answer": n + 200}
    for n in (4, 5)
]
AIME25: Rows = [{"id": n, "problem": f"Find ${n}+10$.", "answer": str(n + 10)} for n in (1, 2)]
AMC23: Rows = [{"id": n, "question": f"Find {n}+7.", "answer": f"{n + 7}.0"} for n in (1, 2)]
GPQA: Rows = [
    {
        "Record ID": f"rec{n}",
        "Question": f"Which energy has level {n}?\n",
        "Correct Answer": f"{n} eV\n",
        "Incorrect Answer 1": f"{n + 1} eV",
        "Incorrect Answer 2": f"{n + 2} eV",
        "Incorrect Answer 3": f"{n + 3} eV",
    }
    for n in range(1, 41)
]
MGSM: Rows = [
    {"question": "ジャネットは卵を9個売り、1個2ドルです。いくら？", "answer_number": 18},
    {"question": "ローブは全部で何本？ 2 + 1", "answer_number": 3},
]


def lay_out(root: Path) -> Path:
    """Write every data set below `root`."""
    _write(root, "openai/gsm8k", {"main": {"train": GSM8K[2:], "test": GSM8K}})
    _write(root, "openGPT-X/gsm8kx", {"PT-PT": {"train": GSM8K_PT, "test": GSM8K_PT}})
    _write(root, "HuggingFaceH4/MATH-500", {"default": {"test": MATH500}})
    _write(root, "Maxwell-Jia/AIME_2024", {"default": {"train": AIME24}})
    _write(root, "math-ai/aime25", {"default": {"test": AIME25}})
    _write(root, "math-ai/amc23", {"default": {"test": AMC23}})
    _write(root, "Idavidrein/gpqa", {"gpqa_diamond": {"train": GPQA}})
    train = [
        {**row, "answer": "ステップごとの答え：答えです。", "equation_solution": "1"}
        for row in MGSM
    ]
    test = [{**row, "answer": None, "equation_solution": None} for row in MGSM]
    _write(root, "juletxara/mgsm", {code: {"train": train, "test": test} for code in LANGUAGES})
    return root


def _write(root: Path, name: str, configs: Mapping[str, Mapping[str, Rows]]) -> None:
    folder = root / name
    folder.mkdir(parents=True)
    lines = ["---", "configs:"]
    for config, splits in configs.items():
        lines += [f"- config_name: {config}", "  data_files:"]
        for split, rows in splits.items():
            file = f"{config}_{split}.jsonl"
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (folder / file).write_text(text, encoding="utf-8")
            lines += [f"  - split: {split}", f"    path: {file}"]
    (folder / "README.md").write_text("\n".join([*lines, "---", ""]), encoding="utf-8")
