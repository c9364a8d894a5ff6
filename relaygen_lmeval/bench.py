"""Speed, as ratios measured in one process: stock `hf` beside the policies, same problems.

Rounds are interleaved, so that a machine that slows down slows all alike; a ratio is taken
within its round, and what is reported is the median of the rounds with their least and most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.utils import simple_parse_args_string
from rich.box import SIMPLE_HEAD
from rich.table import Table

from relaygen_lmeval.calibration.speed import scoring_speed
from relaygen_lmeval.config import RelayConfig
from relaygen_lmeval.core.types import RelayResult, Role
from relaygen_lmeval.demo import load_problems
from relaygen_lmeval.demo.problems import prompt
from relaygen_lmeval.engines.local.floor import bare_step_s
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.pair import Pair, load_pair
from relaygen_lmeval.provenance import versions
from relaygen_lmeval.relay import Relay, load_cues, parse_options

HF = "hf"
# Contestants beside it: policy, and whether the decode step is compiled.
PLAIN = {name: (name, "off") for name in ("large", "relay", "small")}
COMPILED = {f"{name} compiled": (name, "on") for name in ("large", "relay")}


@dataclass(frozen=True, slots=True)
class Round:
    """One contestant's way through all problems."""

    wall_s: float
    n_tokens: int
    texts: list[str]
    results: list[RelayResult]


@dataclass(frozen=True, slots=True)
class Bench:
    """What is measured: a loaded pair on the same prompts.

    Attributes:
        config: Options of the pair.
        pair: The models.
        prompts: As the large model's chat template writes them.
        max_gen_toks: Bound of generated tokens.
        repeats: Measured rounds, after one to warm up.
        compiled: Whether compiled contestants and the floor are measured.
        forward_s: Bare compiled forwards measured so far: model and tokens read, seconds.
    """

    config: RelayConfig
    pair: Pair
    prompts: list[str]
    max_gen_toks: int
    repeats: int
    compiled: bool
    forward_s: dict[tuple[Role, int], float] = field(default_factory=dict)

    def batch(self, size: int) -> dict[str, dict[str, Any]]:
        """Figures of every contestant at one batch size."""
        ours = {**PLAIN, **(COMPILED if self.compiled else {})}
        relays = {name: self._relay(size, *kind) for name, kind in ours.items()}
        contestants: dict[str, Callable[[], Round]] = {
            HF: partial(self._run_hf, size),
            **{name: partial(self._run, relay) for name, relay in relays.items()},
        }
        rounds: dict[str, list[Round]] = {name: [] for name in contestants}
        for _ in range(1 + self.repeats):
            for name, run in contestants.items():
                rounds[name].append(run())
        for relay in relays.values():
            relay.close()
        measured = {name: done[1:] for name, done in rounds.items()}
        figures = {name: _figures(mine, measured[HF]) for name, mine in measured.items()}
        if self.compiled and size == 1:
            for name in relays:
                figures[name].update(self._over_floor(measured[name]))
        return figures

    def _over_floor(self, mine: list[Round]) -> dict[str, Any]:
        floor_s = self._floor_s(mine[0].results)
        return {"floor_s": floor_s, "over_floor": _spread([r.wall_s / floor_s for r in mine])}

    def _floor_s(self, results: Sequence[RelayResult]) -> float:
        """What the bare forwards take: a catch-up for every segment, then one a token."""
        total_s = 0.0
        for role in Role:
            own = [s for result in results for s in result.segments if s.role is role]
            if own:
                n_read = sum(s.timing.catch_up_tokens for s in own)
                read_s = self._forward_s(role, max(1, round(n_read / len(own))))
                n_steps = sum(s.n_tokens for s in own) - len(own)
                total_s += len(own) * read_s + n_steps * self._forward_s(role, 1)
        return total_s

    def _forward_s(self, role: Role, n_tokens: int) -> float:
        key = (role, n_tokens)
        if key not in self.forward_s:
            self.forward_s[key] = bare_step_s(self.pair[role].model, n_tokens)
        return self.forward_s[key]

    def _relay(self, size: int, policy: str, compiled: str) -> Relay:
        config = replace(self.config, policy=policy, compile=compiled, batch_size=size)
        return Relay(config, self.pair, load_cues(config))

    def _run(self, relay: Relay) -> Round:
        began = _now()
        requests = [
            relay.requests.make(i, prompt, max_tokens=self.max_gen_toks)
            for i, prompt in enumerate(self.prompts)
        ]
        results = relay.run(requests)
        wall_s = _now() - began
        n_tokens = sum(result.n_tokens for result in results)
        return Round(wall_s, n_tokens, [result.text for result in results], results)

    def _run_hf(self, size: int) -> Round:
        large = self.pair.large
        large.batch_size_per_gpu = size
        kwargs = {"do_sample": False, "max_gen_toks": self.max_gen_toks, "until": []}
        asked = [Instance("generate_until", {}, (p, dict(kwargs)), 0) for p in self.prompts]
        began = _now()
        texts = large.generate_until(asked, disable_tqdm=True)
        wall_s = _now() - began
        return Round(wall_s, sum(len(large.tok_encode(text)) for text in texts), texts, [])


def run_bench(
    model_args: str,
    *,
    n: int,
    batches: Sequence[int],
    repeats: int,
    max_gen_toks: int,
    compiled: bool,
) -> dict[str, Any]:
    """Measure; see `relaygen bench --help`.

    Returns:
        `{"settings", "bare_forwards", "batches": {size: {contestant: figures}}}`; times in
        seconds, ratios over stock `hf` of the same round.
    """
    config = parse_options(simple_parse_args_string(model_args))
    if config.small is None:
        raise ConfigError("bench compares the policies of a pair: name small= too")
    pair = load_pair(config)
    bench = Bench(config, pair, _prompts(pair, n), max_gen_toks, repeats, compiled)
    figures = {size: bench.batch(size) for size in batches}
    forwards = [
        {"role": role.value, "n_tokens": n_tokens, "s": seconds}
        for (role, n_tokens), seconds in bench.forward_s.items()
    ]
    return {"settings": _settings(bench), "bare_forwards": forwards, "batches": figures}


def run_calibration_bench(model_args: str, *, n: int) -> dict[str, Any]:
    """Tokens per second of writing traces and of scoring them; see `scoring_speed`."""
    config = parse_options(simple_parse_args_string(model_args))
    pair = load_pair(config)
    return scoring_speed(config, pair, _prompts(pair, n))


def calibration_table(report: dict[str, Any]) -> Table:
    """The figures for a terminal."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("what", "tok/s", "times generating"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    table.add_row("generating, batch 8", f"{report['generate']:.0f}", "1.0")
    for role in ("small", "large"):
        if role in report:
            ratio = f"{report[f'ratio_{role}']:.1f}"
            table.add_row(f"margins by {role}", f"{report[role]:.0f}", ratio)
    return table


def _prompts(pair: Pair, n: int) -> list[str]:
    questions = [prompt(str(row["question"])) for row in load_problems("test")[:n]]
    if not pair.large.tokenizer.chat_template:
        return questions
    return [
        str(pair.large.apply_chat_template([{"role": "user", "content": question}]))
        for question in questions
    ]


def _settings(bench: Bench) -> dict[str, Any]:
    return {
        "pretrained": bench.config.pretrained,
        "small": bench.config.small,
        "n": len(bench.prompts),
        "repeats": bench.repeats,
        "max_gen_toks": bench.max_gen_toks,
        "torch_threads": torch.get_num_threads(),
        "device": str(bench.pair.large.device),
        "versions": versions(),
    }


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return perf_counter()


def _figures(mine: list[Round], stock: list[Round]) -> dict[str, Any]:
    first = mine[0]
    walls = [r.wall_s for r in mine]
    ratios = [theirs.wall_s / ours.wall_s for theirs, ours in zip(stock, mine, strict=True)]
    same = sum(a == b for a, b in zip(first.texts, stock[0].texts, strict=True))
    figures: dict[str, Any] = {
        "wall_s": _spread(walls),
        "n_tokens": first.n_tokens,
        "tokens_per_s": first.n_tokens / median(walls),
        "ratio": _spread(ratios),
        "same_text_as_hf": same,
        "repeats_itself": all(r.texts == first.texts for r in mine),
    }
    if first.results and first.n_tokens:
        n_large = sum(result.n_tokens_by(Role.LARGE) for result in first.results)
        figures["share"] = n_large / first.n_tokens
    return figures


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": median(values), "min": min(values), "max": max(values)}


def bench_table(report: dict[str, Any]) -> Table:
    """The figures for a terminal."""
    settings = report["settings"]
    table = Table(
        title=f"{settings['n']} problems, {settings['repeats']} rounds, {settings['device']}, "
        f"{settings['torch_threads']} threads; median (least-most)",
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("what", no_wrap=True)
    for heading in ("tok/s", "times hf", "share", "over floor", "= hf"):
        table.add_column(heading, justify="right", no_wrap=True)
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
