"""Speed, as ratios measured in one process: stock `hf` beside the policies, same problems.

Rounds are interleaved, so that a machine that slows down slows all alike; a ratio is taken
within its round, and what is reported is the median of the rounds with their least and most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.utils import simple_parse_args_string
from rich.table import Table

from relaygen_lmeval.config import RelayConfig
from relaygen_lmeval.core.types import RelayResult, Role
from relaygen_lmeval.demo import load_problems
from relaygen_lmeval.demo.problems import prompt
from relaygen_lmeval.engines.local.floor import bare_step_s
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.pair import Pair, load_pair
from relaygen_lmeval.relay import Relay, load_cues, parse_options

HF = "hf"
# Contestants beside it: policy, and whether the decode step is compiled.
OURS = {
    "large": ("large", "off"),
    "relay": ("relay", "off"),
    "small": ("small", "off"),
    "large, compiled": ("large", "on"),
    "relay, compiled": ("relay", "on"),
}


@dataclass(frozen=True, slots=True)
class Round:
    """One contestant's way through all problems: seconds, tokens and texts."""

    wall_s: float
    n_tokens: int
    texts: list[str]
    results: list[RelayResult]


Contestant = Callable[[], Round]


def run_bench(
    model_args: str,
    *,
    n: int,
    batches: Sequence[int],
    repeats: int,
    max_gen_toks: int,
    with_floor: bool,
) -> dict[str, Any]:
    """Measure; see `relaygen bench --help`.

    Returns:
        `{"settings": .., "floor": .., "batches": {size: {contestant: figures}}}`; times in
        seconds, ratios over stock `hf` of the same round.
    """
    config = parse_options(simple_parse_args_string(model_args))
    if config.small is None:
        raise ConfigError("bench compares the policies of a pair: name small= too")
    pair = load_pair(config)
    questions = [prompt(str(row["question"])) for row in load_problems("test")[:n]]
    relay = Relay(replace(config, policy="large"), pair, None)
    prompts = [relay.template(question) for question in questions]
    relay.close()
    report: dict[str, Any] = {
        "settings": {
            "pretrained": config.pretrained,
            "small": config.small,
            "n": len(prompts),
            "repeats": repeats,
            "max_gen_toks": max_gen_toks,
            "torch_threads": torch.get_num_threads(),
            "device": str(pair.large.device),
        },
        "step_s": {},
        "batches": {},
    }
    if with_floor:
        report["step_s"] = {role.value: bare_step_s(pair[role].model) for role in Role}
    for size in batches:
        report["batches"][size] = _bench_batch(
            config, pair, prompts, size, repeats, max_gen_toks, report["step_s"]
        )
    return report


def _bench_batch(
    config: RelayConfig,
    pair: Pair,
    prompts: list[str],
    size: int,
    repeats: int,
    max_gen_toks: int,
    step_s: dict[str, float],
) -> dict[str, Any]:
    relays = {
        name: _relay(replace(config, policy=policy, compile=compiled, batch_size=size), pair)
        for name, (policy, compiled) in OURS.items()
    }
    contestants: dict[str, Contestant] = {
        HF: lambda: _run_hf(pair, prompts, size, max_gen_toks),
        **{name: _runner(relay, prompts, max_gen_toks) for name, relay in relays.items()},
    }
    for run in contestants.values():
        run()
    rounds: dict[str, list[Round]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, run in contestants.items():
            rounds[name].append(run())
    for relay in relays.values():
        relay.close()
    return {name: _figures(name, rounds, step_s if size == 1 else {}) for name in contestants}


def _relay(config: RelayConfig, pair: Pair) -> Relay:
    return Relay(config, pair, load_cues(config))


def _runner(relay: Relay, prompts: list[str], max_gen_toks: int) -> Contestant:
    def run() -> Round:
        requests = [relay.request(i, p, max_tokens=max_gen_toks) for i, p in enumerate(prompts)]
        began = _now()
        results = relay.run(requests)
        wall_s = _now() - began
        n_tokens = sum(result.n_tokens for result in results)
        return Round(wall_s, n_tokens, [result.text for result in results], results)

    return run


def _run_hf(pair: Pair, prompts: list[str], size: int, max_gen_toks: int) -> Round:
    pair.large.batch_size_per_gpu = size
    kwargs = {"do_sample": False, "max_gen_toks": max_gen_toks, "until": []}
    instances = [
        Instance("generate_until", {}, (p, dict(kwargs)), i) for i, p in enumerate(prompts)
    ]
    began = _now()
    texts = pair.large.generate_until(instances, disable_tqdm=True)
    wall_s = _now() - began
    n_tokens = sum(len(pair.large.tok_encode(text)) for text in texts)
    return Round(wall_s, n_tokens, texts, [])


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return perf_counter()


def _figures(name: str, rounds: dict[str, list[Round]], step_s: dict[str, float]) -> dict[str, Any]:
    mine, stock = rounds[name], rounds[HF]
    walls = [r.wall_s for r in mine]
    ratios = [s.wall_s / m.wall_s for s, m in zip(stock, mine, strict=True)]
    figures: dict[str, Any] = {
        "wall_s": _spread(walls),
        "n_tokens": mine[0].n_tokens,
        "tokens_per_s": mine[0].n_tokens / median(walls),
        "ratio": _spread(ratios),
        "same_text_as_hf": sum(a == b for a, b in zip(mine[0].texts, stock[0].texts, strict=True)),
        "repeats_itself": all(r.texts == mine[0].texts for r in mine),
    }
    if mine[0].results:
        figures["share"] = sum(r.n_tokens_by(Role.LARGE) for r in mine[0].results) / max(
            1, mine[0].n_tokens
        )
        if step_s:
            figures["floor_s"] = _floor_s(mine[0].results, step_s)
            figures["over_floor"] = _spread([wall / figures["floor_s"] for wall in walls])
    return figures


def _floor_s(results: Sequence[RelayResult], step_s: dict[str, float]) -> float:
    """What the bare forwards take: one a token, and one a segment to catch up, in seconds."""
    return sum(
        step_s[segment.role.value] * (segment.n_tokens + 1)
        for result in results
        for segment in result.segments
        if segment.role
    )


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": median(values), "min": min(values), "max": max(values)}


def bench_table(report: dict[str, Any]) -> Table:
    """The figures for a terminal."""
    settings = report["settings"]
    table = Table(
        title=f"{settings['n']} problems, {settings['repeats']} rounds, {settings['device']}, "
        f"{settings['torch_threads']} threads",
        title_justify="left",
    )
    table.add_column("batch", justify="right")
    table.add_column("what")
    headings = ("tok/s", "times hf (min-max)", "share", "over floor (min-max)", "text = hf")
    for heading in headings:
        table.add_column(heading, justify="right")
    for size, contestants in report["batches"].items():
        for name, figures in contestants.items():
            table.add_row(str(size), name, *_cells(figures, settings["n"]))
        table.add_section()
    return table


def _cells(figures: dict[str, Any], n: int) -> list[str]:
    return [
        f"{figures['tokens_per_s']:.0f}",
        _range(figures["ratio"]),
        f"{figures['share']:.2f}" if "share" in figures else "-",
        _range(figures["over_floor"]) if "over_floor" in figures else "-",
        f"{figures['same_text_as_hf']}/{n}",
    ]


def _range(spread: dict[str, float]) -> str:
    return f"{spread['median']:.2f} ({spread['min']:.2f}-{spread['max']:.2f})"
