"""The stock lm_eval knows our model and our tasks, and loses nothing by it.

Every test starts a fresh Python, as the hook acts on the first import of lm_eval.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TASK = "relaygen_arithmetic"
HOOK = "import relaygen_lmeval._hook as hook"
ALL_TASKS = "from lm_eval.tasks import TaskManager"
# As the scan of lm_eval's own tasks takes seconds, most tests give it a folder without tasks.
MANAGER = f"""
{ALL_TASKS}
import lm_eval.tasks.manager
lm_eval.tasks.manager.__file__ = {str(ROOT / "tests" / "none.py")!r}
"""
KNOWN = f"""
from lm_eval.api.registry import model_registry
from lm_eval.models import MODEL_MAPPING
assert set(MODEL_MAPPING) <= set(model_registry), set(MODEL_MAPPING) - set(model_registry)
print("relaygen" in model_registry)
{MANAGER}
print("{TASK}" in TaskManager().all_tasks)
"""


def _python(*code: str, flags: Sequence[str] = (), env: Mapping[str, str] | None = None) -> str:
    """Run code in a Python of its own and give what it wrote, errors included."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("RELAYGEN_", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, *flags, "-c", "\n".join(code)],
        env={**keep, **(env or {})},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_model_and_the_tasks_are_found_and_no_built_in_is_lost():
    assert _python(HOOK, KNOWN).split() == ["True", "True"]


def test_a_late_install_does_the_same():
    late = "import lm_eval.models, lm_eval.tasks"
    assert _python(late, HOOK, KNOWN).split() == ["True", "True"]


def test_the_variable_switches_the_automatic_start_off_but_not_a_call():
    off = {"RELAYGEN_LMEVAL_HOOK": "0"}

    assert _python(HOOK, KNOWN, env=off).split() == ["False", "False"]
    assert _python(HOOK, "hook.install(); hook.install()", KNOWN, env=off).split() == ["True"] * 2


def test_get_model_gives_a_built_in_and_names_ours_when_the_registry_is_empty():
    code = """
from lm_eval.api.registry import get_model
print(get_model("dummy").__name__)
try:
    get_model("none")
except ValueError as error:
    print("relaygen" in str(error), "dummy" in str(error))
"""
    assert _python(HOOK, code).split() == ["DummyLM", "True", "True"]


def test_a_model_that_is_registered_already_stays():
    code = """
from lm_eval.api.registry import model_registry
model_registry.register("relaygen", target="newer.lm_eval:Found")
import lm_eval.models
print(dict(model_registry.items())["relaygen"])
"""
    assert _python(HOOK, code).split() == ["newer.lm_eval:Found"]


def test_the_hook_is_gone_when_its_work_is_done():
    code = """
import sys, lm_eval.models
print(hook._finder in sys.meta_path, "exec_module" in vars(lm_eval.models.__loader__))
import lm_eval.tasks
print(hook._finder in sys.meta_path, "exec_module" in vars(lm_eval.tasks.__loader__))
hook.install()
print(hook._finder in sys.meta_path)
"""
    out = _python(HOOK, code).split()
    assert out == ["True", "False", "False", "False", "False"]


def test_a_failure_in_the_hook_is_a_warning_and_lm_eval_works():
    broken = """
def fail(*_): raise RuntimeError("broken on purpose")
hook._STEPS.update(dict.fromkeys(hook._STEPS, fail))
"""
    out = _python(HOOK, broken, KNOWN)

    assert out.count("broken on purpose") >= 2
    assert "RELAYGEN_LMEVAL_HOOK=0" in out
    assert out.split()[-2:] == ["False", "False"]


def test_a_failure_in_finding_is_a_warning_and_lm_eval_works():
    broken = """
def fail(*_): raise RuntimeError("broken on purpose")
hook._finder._watch = fail
"""
    out = _python(HOOK, broken, KNOWN)

    assert "broken on purpose" in out
    assert out.split()[-2:] == ["False", "False"]


def test_the_hook_imports_nothing():
    code = """
import os, sys
before = set(sys.modules)
import relaygen_lmeval._hook
print(*sorted(set(sys.modules) - before))
"""
    flags = ("-S", "-E")  # no site, so that nothing is hidden by what a .pth has loaded
    assert _python(code, flags=flags).split() == ["relaygen_lmeval", "relaygen_lmeval._hook"]


def test_the_hook_costs_under_a_millisecond(tmp_path: Path):
    """With compiled files, as installed ones are; the best of five, as other work disturbs."""

    def cost_us() -> int:
        cached = {"PYTHONPYCACHEPREFIX": str(tmp_path)}
        out = _python(HOOK, flags=("-X", "importtime"), env=cached)
        rows = re.findall(r"(\d+) \|\s+\d+ \|\s+relaygen_lmeval[\w.]*$", out, re.MULTILINE)
        assert len(rows) == 2, out
        return sum(map(int, rows))

    assert min(cost_us() for _ in range(6)) < 1000


def test_the_include_path_of_the_user_still_works(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text("task: mine\n", encoding="utf-8")
    code = f"""
import pathlib
{MANAGER}
folder = {str(tmp_path)!r}
for value in (folder, pathlib.Path(folder), [folder], (pathlib.Path(folder),)):
    print(*TaskManager(include_path=value).all_tasks)
print(*TaskManager(None, folder).all_tasks)
print(*TaskManager(include_path=[]).all_tasks)
"""
    *with_mine, ours = _python(HOOK, code).splitlines()
    assert with_mine == [f"mine {ours}"] * 5
    assert {TASK, f"{TASK}_calibration"} <= set(ours.split())


@pytest.mark.slow
def test_the_tasks_of_lm_eval_are_still_found():
    code = f"""
{ALL_TASKS}
tasks = TaskManager().all_tasks
print("{TASK}" in tasks, "gsm8k" in tasks)
"""
    assert _python(HOOK, code).split() == ["True", "True"]


def test_a_task_of_the_user_wins_over_ours_and_without_defaults_theirs_are_alone(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text(f"task: {TASK}\n", encoding="utf-8")
    code = f"""
{MANAGER}
print(TaskManager(include_path={str(tmp_path)!r}).task_index["{TASK}"].yaml_path)
print(*TaskManager(include_path={str(tmp_path)!r}, include_defaults=False).all_tasks)
"""
    assert _python(HOOK, code).splitlines()[-2:] == [str(tmp_path / "mine.yaml"), TASK]


def test_a_wrong_call_of_the_task_manager_is_still_told_by_lm_eval():
    code = f"""
{MANAGER}
try:
    TaskManager(nonsense=1)
except TypeError as error:
    print(error)
"""
    assert "nonsense" in _python(HOOK, code)


@pytest.mark.slow
def test_both_tasks_load_and_score():
    code = f"""
{MANAGER}
tasks = TaskManager(metadata={{"pretrained": "x"}}).load(["{TASK}", "{TASK}_calibration"])["tasks"]
for task in tasks.values():
    doc = next(iter(task.eval_docs))
    right = r"\\boxed{{" + doc["answer"] + "}}"
    assert doc["question"] in task.doc_to_text(doc)
    assert task.doc_to_target(doc) == doc["answer"]
    assert task.config.generation_kwargs["until"] == []
    texts = [r"\\boxed{{-1}} " + right, right + r" \\boxed{{-1}}", "", r"\\boxed{{"]
    scores = [task.process_results(doc, [text])["exact_match"] for text in texts]
    print("found:", len(task.eval_docs), scores)
"""
    out = [row for row in _python(HOOK, code).splitlines() if row.startswith("found:")]
    assert out == [f"found: {count} [1.0, 0.0, 0.0, 0.0]" for count in (500, 200)]
