"""Traces: what the large model reasons on the documents of a task, journalled as it is written.

It knows the harness's tasks and the journal; it does not know what a cue is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.tasks import TaskManager

from relaygen_lmeval.core.types import Role
from relaygen_lmeval.engines.local.detokenizer import make_detokenizer
from relaygen_lmeval.errors import TraceError
from relaygen_lmeval.harness.instances import label_of
from relaygen_lmeval.harness.model import RelayLM
from relaygen_lmeval.journal import Label, asked, key, read_journal
from relaygen_lmeval.models.pair import Pair
from relaygen_lmeval.tasks import tasks_path

log = logging.getLogger(__name__)

# The paper's settings (arXiv 2602.06454): a calibration sees what a sampled run would write.
GEN_KWARGS: Mapping[str, Any] = {
    "do_sample": True,
    "temperature": 0.6,
    "top_p": 0.95,
    "top_k": 20,
}
_FEWSHOT_SEED = 1234  # the harness's own default

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Trace:
    """One reasoning of the large model.

    Attributes:
        label: The document and repeat it belongs to.
        prompts: What each model reads before it, as token ids.
        ids: The tokens of the reasoning, in the large model's tokenizer.
        texts: Their texts, with special tokens shown.
        n_answer: Tokens of the answer after it.
    """

    label: Label
    prompts: Mapping[Role, tuple[int, ...]]
    ids: tuple[int, ...]
    texts: tuple[str, ...]
    n_answer: int

    @property
    def text(self) -> str:
        """The reasoning."""
        return "".join(self.texts)


def load_tasks(
    names: Sequence[str], gen_kwargs: Mapping[str, Any], num_fewshot: int | None
) -> list[Any]:
    """Load generative tasks, set up as in a run.

    Args:
        names: Of the harness or of the folder `task_configs`.
        gen_kwargs: What replaces the tasks' generation settings.
        num_fewshot: Examples in the prompt; `None`: as the task says.

    Raises:
        TraceError: A task that is not known or generates nothing.
    """
    try:
        loaded = _task_manager(str(tasks_path())).load(list(names))["tasks"]
    except (KeyError, ValueError) as error:
        raise TraceError(f"task {', '.join(names)}: {error.args[0]}") from error
    for name, task in loaded.items():
        kind = task.get_config("output_type")
        if kind != "generate_until":
            raise TraceError(
                f"task {name} generates nothing (output_type {kind}): cues are found in generated "
                "text; name a task of output_type generate_until"
            )
        task.set_config(key="generation_kwargs", value=dict(gen_kwargs), update=True)
        # As `simple_evaluate` does: a task that says 0 means it.
        default = task.get_config("num_fewshot")
        if num_fewshot is not None and default != 0:
            task.set_config(key="num_fewshot", value=num_fewshot)
        elif default is None:
            task.set_config(key="num_fewshot", value=0)
        task.set_fewshot_seed(seed=_FEWSHOT_SEED)
    return list(loaded.values())


def build_instances(
    lm: RelayLM, tasks: Iterable[Any], *, limit: int | None, apply_chat_template: bool
) -> list[Instance]:
    """The requests of the first `limit` documents of every task."""
    instances: list[Instance] = []
    for task in tasks:
        try:
            task.build_all_requests(
                limit=limit,
                rank=0,
                world_size=1,
                apply_chat_template=apply_chat_template,
                fewshot_as_multiturn=apply_chat_template,
                chat_template=lm.apply_chat_template if apply_chat_template else None,
                tokenizer_name=lm.tokenizer_name if apply_chat_template else "",
            )
        except ValueError as error:
            raise TraceError(f"task {task.config.task}: {error}") from error
        instances += task.instances
    return instances


def write_traces(lm: RelayLM, instances: Sequence[Instance], repeats: int) -> list[Record]:
    """Have the large model write what the journal does not hold yet.

    Args:
        lm: With policy `large`; its journal is read and continued.
        instances: The documents' requests.
        repeats: Samples of each.

    Returns:
        One record a sample, sorted by task, document and repeat, whenever each was made.
    """
    # Not through `generate_until`: it numbers the repeats of each call from 0, and a run that
    # goes on may lack the second one alone.
    labels = [label_of(i, n) for i in instances for n in range(repeats)]
    drawn = [i for i in instances for _ in range(repeats)]
    requests = lm.requests_of(drawn, labels)
    wanted = [key(asked(request, label)) for request, label in zip(requests, labels, strict=True)]
    path = lm.run.journal.path
    held = {key(record) for record in _requests(path)}
    missing = [request for request, key in zip(requests, wanted, strict=True) if key not in held]
    if len(missing) < len(requests):
        n_held = len(requests) - len(missing)
        log.info("%d of %d traces are in %s already", n_held, len(requests), path)
    lm.run.relay(missing, labels, title="traces")
    found = {key(record): record for record in _requests(path)}
    order = sorted(range(len(labels)), key=lambda n: sort_key(labels[n]))
    return [found[wanted[n]] for n in order]


def read_records(path: Path) -> tuple[Record, list[Record]]:
    """Read the header and the finished requests of a journal that exists.

    Raises:
        TraceError: The journal of a policy in which the large model did not write all.
    """
    header = next(read_journal(path))
    policy = header.get("policy")
    if policy != "large":
        raise TraceError(
            f"traces {path} were written with policy {policy}: cues are measured on what the large "
            "model alone writes; make them with policy=large"
        )
    records = sorted(_requests(path), key=lambda r: (r["task"], r["doc_id"], r["repeat"]))
    return header, records


def check_model(header: Record, path: Path, large: Record) -> None:
    """Refuse the traces of another large model.

    Args:
        header: Of the journal.
        path: Of the journal.
        large: The loaded large model, as `describe_model` describes it.

    Raises:
        TraceError: It is another; the message says in what.
    """
    theirs: Record = next((m for m in header.get("models", []) if m.get("role") == "large"), {})
    known = theirs.get("sha") and large.get("sha")
    for name in ("sha",) if known else ("name",):
        if theirs.get(name) != large.get(name):
            raise TraceError(
                f"traces {path} are of another large model: {name} {theirs.get(name)!r} "
                f"({theirs.get('name')}), but the one given has {large.get(name)!r} "
                f"({large.get('name')}); give that model or make the traces anew"
            )


def read_traces(pair: Pair, records: Sequence[Record], path: Path) -> list[Trace]:
    """Turn records into token ids and their texts, as the models see them.

    Raises:
        TraceError: There is none, or their tokens are those of another tokenizer.
    """
    if not records:
        raise TraceError(f"no traces: {path} holds no finished request; make some first")
    traces = [_trace(pair, record, path) for record in records]
    traces = [trace for trace in traces if trace.ids]
    if len(traces) < 2:
        raise TraceError(
            f"{len(traces)} trace in {path}: with fewer than two no error can be given; "
            "ask for more with --limit or --repeats"
        )
    return traces


def sort_key(label: Label) -> tuple[str, int, int]:
    """What traces are sorted by."""
    return label.task, label.doc_id, label.repeat


@lru_cache(maxsize=2)
def _task_manager(folder: str) -> TaskManager:
    """Kept, for it reads the name of every task of the harness: seconds."""
    return TaskManager(include_path=folder)


def _requests(path: Path) -> list[Record]:
    return [record for record in read_journal(path) if record.get("kind") == "request"]


def _trace(pair: Pair, record: Record, path: Path) -> Trace:
    reasoning = [s for s in record["segments"] if s["phase"] == "reasoning" and s["role"]]
    ids = tuple(i for segment in reasoning for i in segment["token_ids"])
    prompts = {role: _prompt(pair, role, record, path) for role in Role}
    detokenizer = make_detokenizer(pair.large.tokenizer, prompts[Role.LARGE])
    texts = tuple(detokenizer.step(i) for i in ids)
    n_chars = sum(segment["n_chars"] for segment in reasoning)
    if "".join(texts) != record["text"][:n_chars]:
        raise TraceError(
            f"traces {path}: the tokens of document {record['doc_id']} do not read as its text, "
            "so they were written with another tokenizer; give the model they were made with"
        )
    label = Label(record["task"], record["doc_id"], record["repeat"])
    return Trace(label, prompts, ids, texts, record["n_tokens"] - len(ids))


def _prompt(pair: Pair, role: Role, record: Record, path: Path) -> tuple[int, ...]:
    """The prompt as it was encoded for the run, cut from the left where that was."""
    if pair.shares_ids:
        role = Role.LARGE
    text = record["prompts"].get(role.value, record["prompts"]["large"])
    model = pair[role]
    ids = [int(i) for i in model.tok_batch_encode([text])[0][0].tolist()]
    ids = ids or [int(model.prefix_token_id)]
    n = record["prompt_tokens"][role.value]
    if len(ids) < n:
        raise TraceError(
            f"traces {path}: the prompt of document {record['doc_id']} has {n} tokens there and "
            f"{len(ids)} in the {role.value} model's tokenizer: it is another one"
        )
    return tuple(ids[-n:])
