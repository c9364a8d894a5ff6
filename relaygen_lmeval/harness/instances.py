"""Reads what the harness asks: which answer to what, how many tokens, where to stop, how to draw."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.models.utils import (
    handle_stop_sequences,
    normalize_gen_kwargs,
    postprocess_generated_text,
)
from lm_eval.utils import handle_non_serializable, hash_string

from relaygen_lmeval.core.types import SamplingParams
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.journal import Label
from relaygen_lmeval.scoring.response import Response

_BUDGET_NAMES = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
_SAMPLING_NAMES = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
# Settings of other decoders that change nothing at these values.
_NEUTRAL = {"num_beams": 1, "num_return_sequences": 1, "use_cache": True, "num_beam_groups": 1}


def request_seed(base: int, label: Label) -> int:
    """A seed that depends on what is asked, not on when or beside what it is answered."""
    key = f"{base}/{label.task}/{label.doc_id}/{label.repeat}"
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:6], "big")


def labels_of(requests: Sequence[Instance]) -> list[Label]:
    """With `repeats` the harness sends the same object several times.

    Over several processes it sends the last one oftener still, so that all have equally many:
    those get the labels of the first ones again.
    """
    seen: Counter[int] = Counter()
    labels = []
    for request in requests:
        repeat = seen[id(request)] % (request.repeats or len(requests))
        labels.append(label_of(request, repeat))
        seen[id(request)] += 1
    return labels


def drop_padding(requests: Sequence[Instance]) -> None:
    """Drop the answers to what `labels_of` calls the first ones again.

    The harness takes them for further repeats of the last document, which would then weigh more
    answers than the others: pass@k of twice the same four is another number.
    """
    for request in requests:
        if request.repeats:
            del request.resps[request.repeats :]


def label_of(request: Instance, repeat: int = 0) -> Label:
    """Where a request comes from; the document's hash is that of the harness's samples."""
    doc = json.dumps(request.doc, indent=2, default=handle_non_serializable, ensure_ascii=False)
    return Label(request.task_name or "", request.doc_id or 0, repeat, hash_string(doc))


def scored_text(answer: str, stops: Sequence[str], flags: Collection[str]) -> Response:
    """What the harness scores: the reasoning is gone already, then the stop strings."""
    text = postprocess_generated_text(answer, list(stops), None)
    return Response(text, unfinished="reasoning_closed" in flags)


def budget(gen_kwargs: Mapping[str, Any]) -> int | None:
    """The bound of generated tokens; `None` where the task sets none."""
    if not any(gen_kwargs.get(name) is not None for name in _BUDGET_NAMES):
        return None
    return int(normalize_gen_kwargs(dict(gen_kwargs))["max_gen_toks"])


def until(gen_kwargs: Mapping[str, Any], eos: str) -> tuple[str, ...]:
    """The stop strings, with the end of text `eos` as the harness adds it."""
    stops = handle_stop_sequences(normalize_gen_kwargs(dict(gen_kwargs))["until"], eos=eos)
    return tuple(stop for stop in stops if stop)


def sampling(
    gen_kwargs: Mapping[str, Any], label: Label, defaults: SamplingParams, seed: int
) -> SamplingParams:
    """How the tokens of one answer are chosen.

    Args:
        gen_kwargs: As the task and `--gen_kwargs` give them.
        label: The answer's place, from which its seed is made.
        defaults: Where nothing is said.
        seed: Base of the seeds, where `gen_kwargs` has none.

    Raises:
        ConfigError: A setting that we do not know.
    """
    kwargs = dict(normalize_gen_kwargs(dict(gen_kwargs)))
    known = {*_SAMPLING_NAMES, *_NEUTRAL, "until", "max_gen_toks", "do_sample", "seed"}
    for name, value in kwargs.items():
        if name not in known or value not in (None, _NEUTRAL.get(name, value)):
            raise ConfigError(
                f"generation setting {name}={value} is not supported; supported are "
                f"{', '.join(sorted(known - _NEUTRAL.keys()))}"
            )
    given = {name: kwargs[name] for name in _SAMPLING_NAMES if kwargs.get(name) is not None}
    base = seed if kwargs.get("seed") is None else int(kwargs["seed"])
    return replace(defaults, **given, seed=request_seed(base, label))
