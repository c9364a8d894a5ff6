"""The real Qwen pair on two llama.cpp servers: 24 problems of GSM8K by large, small and relay.

It takes about twenty minutes on two cores; `make servers` fetches the models. The problems lie in a
folder beside the checkout, which the variable GSM8K_VARIABLE may name.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import datasets
import lm_eval.tasks
import pytest
from lm_eval.evaluator import simple_evaluate
from lm_eval.tasks import TaskManager
from rich.console import Console
from transformers import AutoConfig, AutoTokenizer

from relaygen_lmeval.core.types import Role
from relaygen_lmeval.engines.launch import launch_pair
from relaygen_lmeval.harness.model import RelayLM
from relaygen_lmeval.journal import read_journal
from relaygen_lmeval.report.totals import totals_table
from tests.servers.fetch_models import VARIABLE, model_file

GSM8K_VARIABLE = "RELAYGEN_TEST_GSM8K"
TASK = "gsm8k"  # the harness's own
N, N_SHOTS, N_TOKENS = 24, 2, 200
N_TRAIN = 100  # the last problems, for the examples
FILES = {Role.LARGE: model_file("qwen15"), Role.SMALL: model_file("qwen05")}
CARD = """---
configs:
- config_name: main
  data_files: [{split: train, path: train.jsonl}, {split: test, path: test.jsonl}]
---
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    for package in ("xllamacpp", "gguf"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"pip install {package}")
    for file in FILES.values():
        if not file.is_file():
            pytest.skip(f"no {file}: python -m tests.servers.fetch_models, or set {VARIABLE}")
    wanted = {role: (str(file), ["--context", "4096"]) for role, file in FILES.items()}
    servers = launch_pair(wanted, "llama.cpp")
    yield {"base_url": servers[Role.LARGE].url, "small_base_url": servers[Role.SMALL].url}
    for server in servers.values():
        server.stop()


@pytest.fixture(scope="module")
def tokenizers(
    urls: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[Role, str]:
    """Read out of the models once: it takes half a minute."""
    folders = {}
    for role, file in FILES.items():
        folders[role] = str(tmp_path_factory.mktemp(role.value))
        for kind in (AutoTokenizer, AutoConfig):
            kind.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(folders[role])
    return folders


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaskManager]:
    """The task, in a folder where its data set is found by its name."""
    beside = Path(__file__).parents[3] / "shared" / "data" / "gsm8k_test.jsonl"
    problems = Path(os.environ.get(GSM8K_VARIABLE, beside))
    if not problems.is_file():
        pytest.skip(f"no problems {problems}: set {GSM8K_VARIABLE} to the test split as JSON lines")
    root = tmp_path_factory.mktemp("hub")
    folder = root / "openai" / "gsm8k"
    folder.mkdir(parents=True)
    lines = problems.read_text("utf-8").splitlines(keepends=True)
    (folder / "train.jsonl").write_text("".join(lines[-N_TRAIN:]), "utf-8")
    (folder / "test.jsonl").write_text("".join(lines[:-N_TRAIN]), "utf-8")
    (folder / "README.md").write_text(CARD)
    tasks = Path(lm_eval.tasks.__file__).parent / TASK
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", root / ".cache")
        patch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)
        yield TaskManager(include_path=str(tasks), include_defaults=False)


@pytest.fixture
def lm(
    policy: str, urls: Mapping[str, str], tokenizers: Mapping[Role, str], tmp_path: Path
) -> Iterator[RelayLM]:
    made = RelayLM(
        engine="server",
        pretrained=tokenizers[Role.LARGE],
        small=tokenizers[Role.SMALL],
        policy=policy,
        cues="all_candidates",
        num_concurrent=4,
        log_dir=str(tmp_path),
        **urls,
    )
    yield made
    made.close()


@pytest.mark.parametrize("policy", ["large", "small", "relay"])
def test_problems_of_gsm8k(policy: str, lm: RelayLM, manager: TaskManager) -> None:
    results = simple_evaluate(
        lm,
        tasks=[TASK],
        task_manager=manager,
        limit=N,
        num_fewshot=N_SHOTS,
        apply_chat_template=True,
        fewshot_as_multiturn=True,
        gen_kwargs=f"max_gen_toks={N_TOKENS}",
    )
    assert results is not None
    scores = results["results"][TASK]
    totals = lm.run.totals()
    Console().print(totals_table(totals, f"{policy}: {scores}"))
    records = [r for r in read_journal(lm.run.journal.path) if r["kind"] == "request"]
    assert len(records) == N
    for record in records:
        written = [s for s in record["segments"] if s["role"]]
        assert sum(s["n_tokens"] for s in written) == record["n_tokens"] <= N_TOKENS
        assert all(s["wire"]["n_requests"] >= 1 for s in written)
    handed_over = sum(record["handoffs"] > 0 for record in records)
    assert handed_over > N // 2 if policy == "relay" else not handed_over
    share = totals[TASK]["share"]
    assert {"large": share == 1, "small": share == 0, "relay": 0 < share < 1}[policy]
