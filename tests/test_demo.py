"""The demo: its problems are right and its splits apart, its tokenizer loses nothing."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from itertools import islice

import pytest

from relaygen_lmeval.demo import demo_path, load_problems
from relaygen_lmeval.demo.problems import PUBLISHED, SEED, generate, prompt, split_of

EQUATION = re.compile(r"\$?([\d.]+) ([-+*]) \$?([\d.]+) = \$?(\d+(?:\.\d+)?)")
TIMES = re.compile(r"(\d+) times \$?([\d.]+) is \$?(\d+(?:\.\d+)?)")
ODD_TEXTS = [
    "So, 12 + 7 = 19.\r\n\r\n\tTherefore  \n x ",
    " leading, trailing ",
    "caf\u00e9 \U0001f642 \u6f22\u5b57 \u0627\u0644 don 't . , !",
    "<think>\nhi\n</think>\n\n\\boxed{3.50}",
    "\x00\x7f\u2028",
]


def _train(count: int) -> list:
    return list(islice(generate("train", SEED), count))


def _value(op: str, left: str, right: str) -> Fraction:
    a, b = Fraction(left), Fraction(right)
    return a + b if op == "+" else a - b if op == "-" else a * b


def test_splits_share_no_question():
    questions: dict[str, set[str]] = {
        split: {str(r["question"]) for r in load_problems(split)} for split in PUBLISHED
    }
    questions["train"] = {p.question for p in _train(5000)}

    assert [len(q) for q in questions.values()] == [*PUBLISHED.values(), 5000]
    assert all(split_of(q) == split for split, qs in questions.items() for q in qs)


def test_same_seed_same_problems():
    assert _train(50) == _train(50)
    assert list(islice(generate("train", SEED + 1), 50)) != _train(50)


@pytest.mark.parametrize("split", PUBLISHED)
def test_published_files_are_what_the_generator_makes(split):
    made = [
        {"question": p.question, "answer": p.answer, "steps": p.steps, "reasoning": p.reasoning}
        for p in islice(generate(split, SEED), PUBLISHED[split])
    ]

    assert load_problems(split) == made


def test_every_calculation_in_a_trace_is_right():
    checked = 0
    for problem in _train(3000):
        found = EQUATION.findall(problem.reasoning)
        found += [(a, "*", b, c) for a, b, c in TIMES.findall(problem.reasoning)]
        assert found
        for left, op, right, result in found:
            assert _value(op, left, right) == Fraction(result), problem.reasoning
        assert problem.reasoning.count(" = ") == len(EQUATION.findall(problem.reasoning))
        checked += len(found)

    assert checked > 5000


def test_last_sentence_and_box_give_the_answer():
    for problem in _train(3000):
        last = re.split(r"(?<=\.)\s", problem.reasoning)[-1]

        assert re.search(rf" \$?{re.escape(problem.answer)}\.$", last)
        assert re.findall(r"\\boxed\{(.*?)\}", problem.answer_text) == [problem.answer]
        assert re.sub(r"[^\d.]", "", problem.answer) == problem.answer
        assert 1 <= problem.steps <= 3


def test_prompt_ends_with_the_instruction():
    assert prompt("How many?") == r"How many? Put the answer in \boxed{}."


@pytest.fixture(scope="module")
def tokenizer():
    transformers = pytest.importorskip("transformers")
    return transformers.AutoTokenizer.from_pretrained(demo_path() / "large")


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_tokenizer_gives_any_text_back(tokenizer, text):
    ids = tokenizer(text)["input_ids"]

    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_digits_and_think_marks_are_single_tokens(tokenizer):
    assert tokenizer.tokenize("1984") == list("1984")
    assert len(tokenizer("<think></think>")["input_ids"]) == 2
    assert all(len(tokenizer(w)["input_ids"]) == 1 for w in ("So", " So", " Therefore"))


def test_plain_prompt_is_a_clean_prefix(tokenizer):
    start = "Question: How many?\nAnswer:"
    ids = tokenizer(start)["input_ids"]

    assert tokenizer(start + "<think>\nSo")["input_ids"][: len(ids)] == ids


def test_chat_template(tokenizer):
    turns = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]

    def render(**options):
        return tokenizer.apply_chat_template(turns, tokenize=False, **options)

    head = "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n"
    assert render() == head
    assert render(add_generation_prompt=True) == head + "<|im_start|>assistant\n"
    assert render(add_generation_prompt=True, enable_thinking=False).endswith(
        "assistant\n<think>\n\n</think>\n\n"
    )


def test_pair_is_small_and_shares_its_tokenizer():
    large, small = demo_path() / "large", demo_path() / "small"
    size = sum(f.stat().st_size for d in (large, small) for f in d.iterdir())

    assert size < 6_000_000
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (large / name).read_bytes() == (small / name).read_bytes()
    for folder in (large, small):
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        assert config["model_type"] == "qwen3"
        assert config["dtype"] == "bfloat16"
