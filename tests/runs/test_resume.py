"""A run that goes on does the rest alone, and ends as one that was never interrupted."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.instance import Instance

from relaygen_lmeval.errors import ConfigError, JournalError
from relaygen_lmeval.harness.model import RelayLM
from relaygen_lmeval.journal import read_journal
from relaygen_lmeval.relay import Relay

SAMPLED = {"do_sample": True, "temperature": 1.0}


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., RelayLM]]:
    """A function that makes a model of options, with its journal in `tmp_path/log`."""
    made: list[RelayLM] = []

    def make(**options: Any) -> RelayLM:
        made.append(RelayLM(**{"batch_size": 4, "log_dir": str(tmp_path / "log"), **options}))
        return made[-1]

    yield make
    for lm in made:
        lm.close()


def asked(lm: RelayLM, questions: list[str], repeats: int = 1, **kwargs: Any) -> list[Instance]:
    instances = []
    for i, question in enumerate(questions):
        prompt = lm.apply_chat_template([{"role": "user", "content": question}])
        gen_kwargs = {"until": ["\n\n\n"], "max_gen_toks": 120, **kwargs}
        one = Instance("generate_until", {"question": question}, (prompt, gen_kwargs), 0)
        one.task_name, one.doc_id, one.repeats = "task", i, repeats
        instances += [one] * repeats
    return instances


def answer(lm: RelayLM, instances: list[Instance]) -> list[str]:
    return lm.generate_until(instances, disable_tqdm=True)


def written(lm: RelayLM) -> list[dict[str, Any]]:
    return [r for r in read_journal(lm.run.journal.path) if r["kind"] == "request"]


@pytest.mark.parametrize("kwargs", [{}, SAMPLED])
def test_only_the_rest_is_done_and_all_is_as_if_uninterrupted(make, questions, tmp_path, kwargs):
    whole = make(log_dir=str(tmp_path / "whole"))
    texts = answer(whole, asked(whole, questions[:4], 3, **kwargs))
    first = make()
    answer(first, asked(first, questions[:4], 3, **kwargs)[:5])

    second = make(resume="auto", batch_size=2)
    resumed = answer(second, asked(second, questions[:4], 3, **kwargs))

    assert resumed == texts
    assert len(written(second)) == 12
    assert [record["run"] for record in written(second)] == [1] * 5 + [2] * 7
    total, expected = (lm.run.totals()["task"] for lm in (second, whole))
    for name in ("n", "tokens_mean", "share", "handoffs_per_1000", "unfinished"):
        assert total[name] == expected[name]
    starts = second.get_model_info()["relay"]["runs"]
    assert [(start["run"], start["n"]) for start in starts] == [(1, 5), (2, 7)]
    assert total["wall_s"] == pytest.approx(sum(start["wall_s"] for start in starts))


def test_a_folder_names_the_run_that_goes_on(make, questions, tmp_path, caplog):
    first = make()
    answer(first, asked(first, questions[:2]))

    second = make(log_dir=None, resume=str(tmp_path / "log"))
    with caplog.at_level(logging.WARNING):
        answer(second, asked(second, questions[:3]))

    assert second.run.journal.path == first.run.journal.path
    assert "resume: 2 requests are finished already, 1 are left" in caplog.text
    assert len(written(second)) == 3


def test_without_resume_all_is_done_again(make, questions):
    first, second = make(), make()
    answer(first, asked(first, questions[:1]))
    answer(second, asked(second, questions[:1]))

    assert [record["run"] for record in written(second)] == [1, 2]


@pytest.mark.parametrize(
    "changed",
    [{"until": ["the"]}, {"max_gen_toks": 60}, {"temperature": 0.5, "do_sample": True}],
)
def test_another_setting_of_a_task_is_asked_anew(make, questions, changed):
    first = make()
    answer(first, asked(first, questions[:1]))

    second = make(resume="auto")
    answer(second, asked(second, questions[:1], **changed))

    assert len(written(second)) == 2


def test_another_document_with_the_same_prompt_is_asked_anew(make, questions):
    """Its answer differs, say, and with it what a seed is worth."""
    first = make()
    instances = asked(first, questions[:1])
    answer(first, instances)

    second = make(resume="auto")
    instances[0].doc = {"question": questions[0], "answer": "corrected"}
    answer(second, instances)

    assert len(written(second)) == 2


@pytest.mark.parametrize(
    ("option", "difference"),
    [
        ({"policy": "large"}, r'config\.policy: "relay", now "large"'),
        ({"cue_match": "substring"}, r'config\.cue_match: null, now "substring"'),
        ({"dtype": "float64"}, r'models\.large\.dtype: "torch.float32", now "torch.float64"'),
        ({"seed": 5}, r"config\.seed: 1234, now 5"),
    ],
)
def test_another_run_is_refused_with_what_differs(make, option, difference):
    make()

    with pytest.raises(JournalError, match=rf"is of another run \(.*{difference}") as refused:
        make(resume="auto", **option)
    assert "another log_dir=" in str(refused.value)


def test_what_changes_no_text_may_change(make):
    make()
    make(resume="auto", batch_size=1, max_batch_size=8)


def test_a_torn_last_line_is_dropped_with_a_note(make, questions, caplog):
    first = make()
    answer(first, asked(first, questions[:2]))
    first.run.journal.close()
    path = first.run.journal.path
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])

    with caplog.at_level(logging.WARNING):
        second = make(resume="auto")
    answer(second, asked(second, questions[:2]))

    assert "its last line is torn" in caplog.text
    assert all(json.loads(line) for line in path.read_text().split("\n")[:-1])
    assert [record["run"] for record in written(second)] == [1, 2]


def test_a_run_may_begin_with_resume(make, questions):
    lm = make(resume="auto")
    assert len(answer(lm, asked(lm, questions[:1]))) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resume": "auto"}, "resume=auto needs log_dir="),
        ({"resume": True}, "resume=True must be auto, or the log folder"),
        ({"resume": "nowhere"}, "resume=nowhere holds no journal of an earlier run"),
        ({"resume": "a", "log_dir": "b"}, "resume=a goes on in that folder, but log_dir=b"),
    ],
)
def test_options_that_cannot_be_meant(options, message):
    with pytest.raises(ConfigError, match=message):
        Relay.from_options(options)
