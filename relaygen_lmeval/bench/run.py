"""The rounds of a bench."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from lm_eval.utils import simple_parse_args_string

from relaygen_lmeval.bench.contestants import HF, Field, Round
from relaygen_lmeval.bench.figures import figures, spread
from relaygen_lmeval.bench.floor import Floor
from relaygen_lmeval.calibration.speed import scoring_speed
from relaygen_lmeval.demo import load_problems
from relaygen_lmeval.demo.problems import prompt
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.models.pair import Pair, load_pair
from relaygen_lmeval.provenance import versions
from relaygen_lmeval.relay import parse_options

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of `relaygen bench`; see its `--help`."""

    model_args: str = ""
    n: int = 20
    batches: tuple[int, ...] = (1, 4, 16)
    repeats: int = 5
    max_gen_toks: int = 400
    compiled: bool = True
    floor: bool = True


def run_bench(plan: Plan, say: Say = lambda line: None) -> dict[str, Any]:
    """Measure.

    Args:
        plan: What and how often.
        say: Hears of every round as it begins.

    Returns:
        `{"settings", "bare_forwards", "batches": {size: {contestant: figures}}}`; times in
        seconds, ratios over stock `hf` of the same round.
    """
    options = simple_parse_args_string(plan.model_args)
    config = parse_options({"compile": "on" if plan.compiled else "off", **options})
    if config.small is None:
        raise ConfigError("bench compares the policies of a pair: name small= too")
    pair = load_pair(config)
    problems = load_problems("test")[: plan.n]
    field = Field(config, pair, prompts(pair, plan.n), plan.max_gen_toks)
    answers = [str(problem["answer"]) for problem in problems]
    floor = Floor(pair) if plan.floor else None
    by_size = {}
    for size in plan.batches:
        rounds = _rounds(field, size, plan.repeats, floor, say)
        by_size[size] = {name: figures(mine, rounds[HF], answers) for name, mine in rounds.items()}
    return {
        "settings": _settings(plan, config.pretrained, str(config.small), pair),
        "bare_forwards": _forwards(floor),
        "batches": by_size,
    }


def run_calibration_bench(model_args: str, *, n: int) -> dict[str, Any]:
    """Tokens per second of writing traces and of scoring them; see `scoring_speed`."""
    config = parse_options(simple_parse_args_string(model_args))
    pair = load_pair(config)
    return scoring_speed(config, pair, prompts(pair, n))


def _rounds(
    field: Field, size: int, repeats: int, floor: Floor | None, say: Say
) -> dict[str, list[Round]]:
    """Interleaved rounds of everyone; the first of each warms up and is left out."""
    runs, relays = field.contestants(size)
    rounds: dict[str, list[Round]] = {name: [] for name in runs}
    for i in range(1 + repeats):
        if floor:
            floor.begin_round()
        for name, run in runs.items():
            say(f"batch {size}, round {i} of {repeats}: {name}")
            done = run()
            floor_s = floor.of(done.results, size) if floor and done.results else None
            rounds[name].append(replace(done, floor_s=floor_s))
    for relay in relays:
        relay.close()
    return {name: done[1:] for name, done in rounds.items()}


def prompts(pair: Pair, n: int) -> list[str]:
    """Problems of the embedded task as the large model reads them."""
    questions = [prompt(str(row["question"])) for row in load_problems("test")[:n]]
    if not pair.large.tokenizer.chat_template:
        return questions
    return [
        str(pair.large.apply_chat_template([{"role": "user", "content": question}]))
        for question in questions
    ]


def _forwards(floor: Floor | None) -> list[dict[str, Any]]:
    measured = floor.times_s.items() if floor else ()
    return [
        {"role": role.value, "n_rows": n_rows, "n_tokens": n_tokens, "s": spread(times_s)}
        for (role, n_rows, n_tokens), times_s in measured
    ]


def _settings(plan: Plan, large: str, small: str, pair: Pair) -> dict[str, Any]:
    return {
        "pretrained": large,
        "small": small,
        "n": plan.n,
        "repeats": plan.repeats,
        "max_gen_toks": plan.max_gen_toks,
        "compile": plan.compiled,
        "torch_threads": torch.get_num_threads(),
        "device": str(pair.large.device),
        "versions": versions(),
    }
