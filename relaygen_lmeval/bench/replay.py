"""What a pair would gain on this device, before it is downloaded.

Models of the shapes given, with random weights, write a recorded trace over again: as many
tokens in every segment, the same handoffs, the same catch-ups. What they write means nothing;
what it takes is what the pair would take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.table import Table
from transformers import AutoConfig, AutoModelForCausalLM

from relaygen_lmeval.bench.contestants import now
from relaygen_lmeval.bench.figures import spread
from relaygen_lmeval.core.types import Chunk, Phase, Piece, RelayRequest, Role, StopRule, Turn
from relaygen_lmeval.engines.local import LocalEngine
from relaygen_lmeval.engines.local.choice import make_forward
from relaygen_lmeval.engines.local.lane import Lane
from relaygen_lmeval.engines.local.pacer import Pacer
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.journal import read_journal

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True)
class Replay:
    """The options of `relaygen bench --shape`; see its `--help`."""

    shape: Path
    small_shape: Path
    journal: Path
    n: int = 20
    batches: tuple[int, ...] = (1, 4, 16)
    repeats: int = 5
    device: str = "cpu"
    dtype: str = "float32"
    compiled: bool = True


@dataclass(frozen=True, slots=True)
class Trace:
    """One recorded request: the prompt's length, and who wrote how many tokens in turn."""

    n_prompt: int
    turns: tuple[tuple[Role, int], ...]

    @property
    def alone(self) -> Trace:
        """The same text, all by the large model."""
        return Trace(self.n_prompt, ((Role.LARGE, sum(n for _, n in self.turns)),))


class _NoText:
    """A tokenizer without words: every token reads as nothing, and none ends a text."""

    is_fast = False
    eos_token_id = None

    def decode(self, ids: Sequence[int], **options: object) -> str:
        return ""


def run_replay(replay: Replay) -> dict[str, Any]:
    """Time the recorded relay, and the large model alone over the same tokens.

    Returns:
        `settings`, and `batches`: by size spreads in seconds of `large` and `relay`, `ratio` of
        the rounds, and `tokens_per_s` of both.

    Raises:
        ConfigError: A shape, journal, device or dtype that cannot be used.
    """
    traces = read_traces(replay.journal, replay.n)
    models = {
        Role.LARGE: _model(replay.shape, replay.device, replay.dtype),
        Role.SMALL: _model(replay.small_shape, replay.device, replay.dtype),
    }
    n_tokens = sum(n for trace in traces for _, n in trace.turns)
    n_large = sum(n for trace in traces for role, n in trace.turns if role is Role.LARGE)
    batches = {size: _measure(models, traces, size, replay) for size in replay.batches}
    settings = {
        "shape": str(replay.shape),
        "small_shape": str(replay.small_shape),
        "parameters": {role.value: _n_parameters(model) for role, model in models.items()},
        "journal": str(replay.journal),
        "n": len(traces),
        "n_tokens": n_tokens,
        "share": n_large / n_tokens,
        "device": replay.device,
        "dtype": replay.dtype,
        "compile": replay.compiled,
        "repeats": replay.repeats,
    }
    return {"settings": settings, "batches": batches}


def read_traces(journal: Path, n: int) -> list[Trace]:
    """The first `n` requests of a journal that a model wrote anything for."""
    traces: list[Trace] = []
    for record in read_journal(journal):
        if record["kind"] == "request" and len(traces) < n:
            turns = tuple(_turns(record["segments"]))
            if turns:
                traces.append(Trace(max(1, record["prompt_tokens"]["large"]), turns))
    if not traces:
        raise ConfigError(f"{journal} holds no finished request to replay")
    return traces


def replay_table(report: Mapping[str, Any]) -> Table:
    """The figures for a terminal."""
    settings = report["settings"]
    table = Table(
        title=f"{settings['n']} traces, {settings['n_tokens']} tokens, large writes "
        f"{100 * settings['share']:.0f} %; random weights, {settings['dtype']} on "
        f"{settings['device']}; median (least-most) of {settings['repeats']}",
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for heading in ("rows", "large tok/s", "relay tok/s", "relay over large"):
        table.add_column(heading, justify="right", no_wrap=True)
    for size, figures in report["batches"].items():
        ratio = figures["ratio"]
        table.add_row(
            str(size),
            f"{figures['tokens_per_s']['large']:.1f}",
            f"{figures['tokens_per_s']['relay']:.1f}",
            f"{ratio['median']:.2f} ({ratio['min']:.2f}-{ratio['max']:.2f})",
        )
    return table


def _turns(segments: Iterable[Mapping[str, Any]]) -> Iterable[tuple[Role, int]]:
    """Who wrote how much; what the relay itself closed a reasoning with is left out."""
    for segment in segments:
        if segment["role"] and segment["n_tokens"]:
            yield Role(segment["role"]), int(segment["n_tokens"])


def _model(shape: Path, device: str, dtype: str) -> Any:
    if dtype not in _DTYPES:
        raise ConfigError(f"dtype={dtype} is not one of {', '.join(_DTYPES)}")
    try:
        config = AutoConfig.from_pretrained(shape)
        with torch.device(device):
            loader: Any = AutoModelForCausalLM
            model = loader.from_config(config, dtype=_DTYPES[dtype]).eval()
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"no model can be made of shape {shape} on {device}: {error}; give a transformers "
            "config.json of a causal model"
        ) from error
    model.generation_config.eos_token_id = None
    return model


def _n_parameters(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _measure(
    models: Mapping[Role, Any], traces: Sequence[Trace], size: int, replay: Replay
) -> dict[str, Any]:
    """Interleaved rounds of both, after one to warm up."""
    pacer, engines = Pacer(), {}
    for role, model in models.items():
        forward = make_forward(model, size, compile_steps=replay.compiled)
        engines[role] = LocalEngine(Lane(role, model, _NoText(), forward), pacer)
    alone = [trace.alone for trace in traces]
    walls: dict[str, list[float]] = {"large": [], "relay": []}
    for _ in range(1 + replay.repeats):
        for name, chosen in (("large", alone), ("relay", traces)):
            began = now()
            asyncio.run(_write_all(chosen, engines, size))
            walls[name].append(now() - began)
    walls = {name: values[1:] for name, values in walls.items()}
    n_tokens = sum(n for trace in traces for _, n in trace.turns)
    ratios = [a / b for a, b in zip(walls["large"], walls["relay"], strict=True)]
    return {
        **{name: spread(values) for name, values in walls.items()},
        "ratio": spread(ratios),
        "tokens_per_s": {k: n_tokens / spread(v)["median"] for k, v in walls.items()},
    }


async def _write_all(
    traces: Sequence[Trace], engines: Mapping[Role, LocalEngine], size: int
) -> None:
    places = asyncio.Semaphore(size)

    async def one(seq_id: int, trace: Trace) -> None:
        async with places:
            await _write(seq_id, trace, engines)

    await asyncio.gather(*(one(i, trace) for i, trace in enumerate(traces)))


async def _write(seq_id: int, trace: Trace, engines: Mapping[Role, LocalEngine]) -> None:
    prompt = Piece("", tuple(1 + i % 8 for i in range(trace.n_prompt)))
    request = RelayRequest(seq_id, dict.fromkeys(Role, prompt), max_tokens=2**31)
    chunks: tuple[Chunk, ...] = ()
    for role, n_tokens in trace.turns:
        turn = Turn(request, role, Phase.REASONING, chunks, StopRule(), n_tokens)
        chunks = (*chunks, await engines[role].run(turn))
    for engine in engines.values():
        engine.release(seq_id)
