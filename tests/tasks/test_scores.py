"""What the harness makes of given texts, whoever wrote them: no model runs here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from relaygen_lmeval.scoring.response import Response

OPENED = "<|user|>{}<|assistant|><think>\n"
PLAIN = "<|user|>{}<|assistant|>"


class Scripted(LM):
    """A model whose texts are given; its chat template may open the reasoning."""

    tokenizer_name = "scripted"

    def __init__(self, texts: Sequence[str], template: str = PLAIN) -> None:
        super().__init__()
        self._texts, self._template = texts, template
        self.prompts: list[str] = []

    def generate_until(self, requests: list[Instance]) -> list[str]:
        self.prompts = [request.args[0] for request in requests]
        return [self._texts[i % len(self._texts)] for i in range(len(requests))]

    def apply_chat_template(self, history: list[dict[str, str]], **_: Any) -> str:
        said = "".join(f"[{turn['role']}]{turn['content']}" for turn in history)
        return self._template.format(said)

    def loglikelihood(self, requests):
        raise NotImplementedError

    def loglikelihood_rolling(self, requests):
        raise NotImplementedError


@pytest.fixture
def scores(manager):
    def run(lm: LM, task: str = "relaygen_aime25", **options: Any) -> Any:
        results = simple_evaluate(
            lm,
            tasks=[task],
            limit=1,
            apply_chat_template=True,
            bootstrap_iters=0,
            task_manager=manager,
            **options,
        )
        [sample] = results["samples"][task]
        return sample

    return run


def four(text: str, template: str = PLAIN) -> Scripted:
    return Scripted([text], template)


@pytest.mark.parametrize(
    ("lm", "average", "truncated", "no_answer"),
    [
        (four(r"It is \boxed{11}."), 1, 0, 0),
        (four(r"It is \boxed{12}."), 0, 0, 0),
        (four("It is 11."), 0, 0, 1),
        (four(r"<think>Let me see: \boxed{11}</think>\boxed{11}"), 1, 0, 0),
        (four(r"<think>Let me see: \boxed{11}"), 0, 1, 0),
        (four(r"Let me see: \boxed{11}", OPENED), 0, 1, 0),
        (four(r"Let me see: \boxed{12}</think>\boxed{11}", OPENED), 1, 0, 0),
        (four(r"Let me see: \boxed{11}</think>None.", OPENED), 0, 0, 1),
        (four(Response(r"\boxed{11}", unfinished=True)), 0, 1, 0),
        (four(Response(r"\boxed{11}"), OPENED), 1, 0, 0),
    ],
)
def test_an_unfinished_reasoning_is_never_right(scores, lm, average, truncated, no_answer):
    sample = scores(lm)

    assert (sample["avg@4"], sample["truncated"], sample["no_answer"]) == (
        average,
        truncated,
        no_answer,
    )


def test_a_model_that_leaves_its_reasoning_out_is_told_so(hub, tmp_path):
    """With `think_end_token` a finished text of an opened prompt has no tag."""
    from lm_eval.tasks import TaskManager

    manager = TaskManager(metadata={"think_end_token": "</think>"})
    lm = four(r"\boxed{11}", OPENED)
    results = simple_evaluate(
        lm, tasks=["relaygen_aime25"], limit=1, apply_chat_template=True, task_manager=manager
    )

    assert results["results"]["relaygen_aime25"]["avg@4,none"] == 1


def test_repeats_are_scored_together(scores):
    texts = [r"\boxed{11}", r"\boxed{12}", r"\boxed{12.0}", "Nothing."]
    sample = scores(Scripted(texts))

    assert sample["avg@4"] == 0.25
    assert sample["maj@4"] == 0  # 12 and 12.0 are one answer
    assert sample["pass@2"] == 0.5
    assert sample["pass@4"] == 1
    assert sample["no_answer"] == 0.25
    assert sample["resps"] == [texts]


def test_options_are_shuffled_by_question_and_the_right_letter_is_recorded(manager):
    task = manager.load(["relaygen_gpqa_diamond"])["tasks"]["relaygen_gpqa_diamond"]
    docs = list(task.eval_docs)
    again = manager.load(["relaygen_gpqa_diamond_greedy"])["tasks"]

    assert [doc["answer"] for doc in again["relaygen_gpqa_diamond_greedy"].eval_docs] == [
        doc["answer"] for doc in docs
    ]
    for doc in docs:
        right = doc["Correct Answer"].strip()
        assert doc["choices"]["ABCD".index(doc["answer"])] == right
        assert f"({doc['answer']}) {right}" in doc["problem"]
        assert sorted(doc["choices"]) == sorted(
            doc[name].strip() for name in doc if name.endswith(("Answer", "1", "2", "3"))
        )
    letters = [doc["answer"] for doc in docs]
    # 40 fair draws leave a letter below 2 or above 22 with a chance under 0.002.
    assert all(2 <= letters.count(letter) <= 22 for letter in "ABCD")


def test_a_choice_is_scored_by_its_letter(scores, manager):
    task = manager.load(["relaygen_gpqa_diamond"])["tasks"]["relaygen_gpqa_diamond"]
    answer = task.eval_docs[0]["answer"]
    other = "ABCD"[("ABCD".index(answer) + 1) % 4]
    texts = [rf"\boxed{{{answer}}}", rf"\boxed{{\text{{({answer})}}}}", rf"\boxed{{{other}}}", "-"]

    sample = scores(Scripted(texts), "relaygen_gpqa_diamond")

    assert sample["avg@4"] == 0.5
    assert sample["maj@4"] == 1
    assert sample["no_answer"] == 0.25
    assert sample["target"] == answer


@pytest.mark.parametrize("multiturn", [True, False])
def test_examples_show_the_box(scores, multiturn):
    lm = four(r"\boxed{7}")
    scores(
        lm,
        "relaygen_gsm8k",
        num_fewshot=1,
        fewshot_as_multiturn=multiturn,
        system_instruction="Be brief.",
    )
    [prompt] = set(lm.prompts)

    assert prompt.startswith("<|user|>[system]Be brief.")
    assert prompt.count("[assistant]") == multiturn
    assert prompt.count("[user]") == 1 + multiturn
    assert r"\boxed{12}" in prompt or r"\boxed{1203}" in prompt
    assert prompt.count(r"\boxed{}") == 2


def test_examples_of_mathematics_keep_their_solution(scores):
    lm = four(r"\boxed{7}")
    scores(lm, "relaygen_math500", num_fewshot=2)

    assert lm.prompts[0].count("Halve it:") == 2
    assert r"\frac{1}{2}}$" not in lm.prompts[0].split("[user]")[1]  # never what is asked


def test_all_that_is_written_can_be_right(scores, manager):
    """The recorded answer of every document, in a box, is right: the data sets are read well."""
    names = ("gsm8k", "math500", "aime24", "amc23", "mgsm_ja")
    loaded = manager.load([f"relaygen_{name}_greedy" for name in names])["tasks"]

    for name, task in loaded.items():
        doc = task.eval_docs[0]
        sample = scores(four(rf"\boxed{{{doc['answer']}}}"), name)
        assert sample["avg@1"] == 1, name
    assert loaded["relaygen_gsm8k_greedy"].eval_docs[3]["answer"] == "1203"
