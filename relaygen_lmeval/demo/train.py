"""Make the demo pair from a seed: problems, tokenizer, and the two models.

    python -m relaygen_lmeval.demo.train --output DIR --role all

Recipe: batches of 16 texts, Muon for the matrices and AdamW for the rest, float32, one thread;
warm-up over 100 steps, constant to the half, linearly to 0; at the end rounded to bf16.

The published weights were made by this recipe, but not in one go nor with one set of problems.
The machine was shared, so runs were stopped and taken up again from their bf16 weights
(`--resume`) with a length by the clock; such a run does not repeat bit by bit. The tokenizer and
all but the last run of each model saw an earlier `problems.py`: numbers up to 99 and prices up
to $9.75 instead of 50 and $5.75, and restatements that also named the objects (neither model
had learned to copy those). A single run with the steps in `RECIPES` has not been measured.
"Right" is the greedy accuracy on 60 calibration problems of the `problems.py` of that run
(after M tokens of that run):

- large, 17 min, `--seed 0`, planned for 4600 steps and stopped at step 1200:
  1.1: .02, 2.2: .07, 3.3: .22
- large, 20 min, `--resume --seed 1 --minutes 27`, stopped at step 2400:
  1.1: .25, 2.2: .40, 3.3: .53, 4.4: .52, 5.6: .48, 6.7: .65
- large, 13 min, `--resume --seed 2 --minutes 13`, today's problems, 1713 steps:
  1.1: .58, 2.2: .57, 3.3: .78, 4.4: 1.00, 4.7: .97
- small, 5.2 min, `--seed 0`, 3000 steps:
  1.4: .02, 2.8: .03, 4.2: .05, 5.6: .03, 7.0: .03, 8.4: .32
- small, 4 min, `--resume --seed 2 --minutes 4`, today's problems, 1902 steps:
  1.1: .13, 2.2: .15, 3.3: .12, 4.4: .30, 5.2: .62

Together 50 min and 14.7 M tokens (large), 9.2 min and 13.6 M tokens (small). On the 500 test
problems, weights rounded to bf16 and run in float32: large 96.0 %, small 49.0 %.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import LambdaLR
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from relaygen_lmeval.demo.corpus import (
    CHAT_TEMPLATE,
    END,
    PAD,
    START,
    pairs,
    prompt_text,
    tokenizer_texts,
    write_problems,
)
from relaygen_lmeval.demo.problems import SEED, generate

log = logging.getLogger(__name__)

VOCABULARY = 512
#: Words, single digits, signs, line ends: the split of Qwen's tokenizers.
PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BATCH = 16
WINDOW = 128  # batches sorted by length together


class Recipe(NamedTuple):
    """Shape and schedule of one model."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    steps: int
    prompt_weight: float = 0.0


RECIPES = {
    "large": Recipe(8, 96, 3, 1, 32, 288, steps=4600),
    "small": Recipe(2, 48, 4, 4, 24, 64, steps=3000, prompt_weight=0.5),
}


class Stepper(Protocol):
    """An optimizer or a learning-rate ramp."""

    def step(self) -> object:
        """Take one step."""


class Example(NamedTuple):
    """Token ids of a prompt and of what should follow it."""

    prompt: list[int]
    target: list[int]


def train_tokenizer(seed: int) -> PreTrainedTokenizerFast:
    """Train the byte-level BPE both models share."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - 2,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(tokenizer_texts(seed, 8000), trainer)
    core.add_tokens(
        [AddedToken(t, special=False, normalized=False) for t in ("<think>", "</think>")]
    )
    make: Any = PreTrainedTokenizerFast  # its __init__ has no types
    tokenizer: PreTrainedTokenizerFast = make(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=END,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
    )
    return tokenizer


def batches(tokenizer: PreTrainedTokenizerFast, seed: int) -> Iterator[list[Example]]:
    """Yield batches without end; those of one window are sorted by length, then shuffled."""
    rng = random.Random(seed)
    texts = pairs(seed)
    while True:
        columns = zip(*islice(texts, BATCH * WINDOW), strict=True)
        ids = [tokenizer(list(column))["input_ids"] for column in columns]
        examples = [Example(a, b) for a, b in zip(*ids, strict=True)]
        examples.sort(key=lambda e: len(e.prompt) + len(e.target))
        window = [examples[i : i + BATCH] for i in range(0, len(examples), BATCH)]
        rng.shuffle(window)
        yield from window


def _tensors(
    batch: Sequence[Example], pad: int, prompt_weight: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Give token ids and loss weights, both `[B, T]`, padded on the right with weight 0."""
    longest = max(len(e.prompt) + len(e.target) for e in batch)
    ids = torch.full((len(batch), longest), pad)
    weights = torch.zeros(len(batch), longest)
    for row, (before, after) in enumerate(batch):
        size = len(before) + len(after)
        ids[row, :size] = torch.tensor(before + after)
        weights[row, : len(before)] = prompt_weight
        weights[row, len(before) : size] = 1.0
    return ids, weights


def build_model(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """Make an untrained model whose residual outputs start small."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.kv_heads,
        head_dim=recipe.head_dim,
        intermediate_size=recipe.mlp,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        initializer_range=0.05,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen3ForCausalLM(config)
    for name, weight in model.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            weight.data.mul_((2 * recipe.layers) ** -0.5)
    return model


class Plan(NamedTuple):
    """How one run goes: its length in steps, or by the clock on a machine that is shared."""

    steps: int
    minutes: float
    seed: int
    resume: bool
    every: int
    rate: float

    def progress(self, step: int, began: float) -> float:
        """Say which part of the run is over, 0 to 1."""
        if self.minutes:
            return min(1.0, (time.monotonic() - began) / 60 / self.minutes)
        return step / self.steps

    def factor(self, step: int, began: float) -> float:
        """Warm the learning rate up for 100 steps, keep it to the half, then fall to 0."""
        return self.rate * min(1.0, (step + 1) / 100, 2 * (1 - self.progress(step, began)))


class Muon(torch.optim.Optimizer):
    """Muon: momentum whose direction is made orthogonal, for stacks of equal matrices.

    Source:
        Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/. `torch.optim.Muon`
        iterates in bf16, which is slow on a CPU, and matrix by matrix.
    """

    def __init__(self, weights: Sequence[torch.nn.Parameter], lr: float) -> None:
        shapes = sorted({tuple(w.shape) for w in weights})
        groups = [{"params": [w for w in weights if tuple(w.shape) == s]} for s in shapes]
        super().__init__(groups, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move every matrix by one orthogonal step and decay it slightly."""
        for group in self.param_groups:
            weights, lr = group["params"], group["lr"]
            grads = torch.stack([w.grad for w in weights])
            momentum = self.state[weights[0]].setdefault("momentum", torch.zeros_like(grads))
            momentum.lerp_(grads, 0.05)
            rows, columns = weights[0].shape
            scale = lr * max(1.0, rows / columns) ** 0.5
            for weight, update in zip(
                weights, _orthogonal(grads.lerp(momentum, 0.95)), strict=True
            ):
                weight.mul_(1 - 0.1 * lr).sub_(update, alpha=scale)


def _orthogonal(stack: torch.Tensor) -> torch.Tensor:
    """Set the singular values of `[N, R, C]` matrices to about 1 (five Newton-Schulz steps)."""
    if stack.shape[1] > stack.shape[2]:
        return _orthogonal(stack.mT).mT
    x: torch.Tensor = stack / (stack.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x


def _optimizers(model: Qwen3ForCausalLM) -> list[torch.optim.Optimizer]:
    inner = [w for n, w in model.named_parameters() if w.ndim == 2 and "embed" not in n]
    rest = [w for n, w in model.named_parameters() if w.ndim == 1 or "embed" in n]
    adam = torch.optim.AdamW(rest, lr=3e-3, betas=(0.9, 0.98), weight_decay=0.0)
    return [Muon(inner, lr=0.02), adam]


def train_model(role: str, output: Path, plan: Plan) -> None:
    """Train one model, logging loss and accuracy; save it rounded to bf16.

    Args:
        role: A key of `RECIPES`.
        output: Holds `tokenizer/`; the model goes to its folder `role`.
        plan: Length, seed, and whether to start from the weights in `output / role`.
    """
    tokenizer = PreTrainedTokenizerFast.from_pretrained(output / "tokenizer")
    recipe = RECIPES[role]
    model = build_model(recipe, tokenizer, plan.seed)
    if plan.resume:
        saved = Qwen3ForCausalLM.from_pretrained(output / role, dtype=torch.float32)
        model.load_state_dict(saved.state_dict())
    optimizers = _optimizers(model)
    tokens, losses, began = 0, [], time.monotonic()
    ramps = [LambdaLR(o, lambda step: plan.factor(step, began)) for o in optimizers]
    log.info("%s: %d parameters", role, sum(w.numel() for w in model.parameters()))
    for step, batch in enumerate(batches(tokenizer, plan.seed), start=1):
        losses.append(_step(model, batch, recipe.prompt_weight, (*optimizers, *ramps)))
        tokens += sum(len(e.prompt) + len(e.target) for e in batch)
        done = plan.progress(step, began) >= 1
        if step % plan.every == 0 or done:
            save(model, tokenizer, output / role)
            right = accuracy(output / role, "calibration", 60)
            minutes = (time.monotonic() - began) / 60
            loss = sum(losses[-plan.every :]) / len(losses[-plan.every :])
            message = "%s step %d, %.2f M tokens, %.1f min: loss %.4f, right %.3f"
            log.info(message, role, step, tokens / 1e6, minutes, loss, right)
        if done:
            break
    log.info("%s: right on 500 test problems %.3f", role, accuracy(output / role, "test", 500))


def _step(
    model: Qwen3ForCausalLM,
    batch: Sequence[Example],
    prompt_weight: float,
    steppers: Sequence[Stepper],
) -> float:
    ids, weights = _tensors(batch, model.config.pad_token_id or 0, prompt_weight)
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
    losses = cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    loss = losses @ weights[:, 1:].flatten() / weights[:, 1:].sum()
    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for stepper in steppers:
        stepper.step()
    model.zero_grad()
    return float(loss.detach())


def save(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save a bf16 copy with tokenizer and generation defaults."""
    rounded: Any = Qwen3ForCausalLM(model.config)
    rounded.load_state_dict(model.state_dict())
    rounded.to(torch.bfloat16)
    defaults: Any = GenerationConfig
    rounded.generation_config = defaults(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    rounded.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _make_portable(folder)


def _make_portable(folder: Path) -> None:
    """Name the tokenizer class every release of transformers knows; let everyone read the files."""
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config |= {"tokenizer_class": "PreTrainedTokenizerFast"}
    for key in ("is_local", "local_files_only"):
        config.pop(key, None)
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for file in folder.iterdir():
        file.chmod(0o644)


@torch.inference_mode()
def accuracy(folder: Path, split: str, count: int) -> float:
    """Measure the share of right boxed answers: greedy, chat prompt, bf16 weights in float32."""
    model = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, padding_side="left")
    problems = list(islice(generate("test" if split == "test" else "calibration", SEED), count))
    problems.sort(key=lambda p: len(p.reasoning))
    right = 0
    for i in range(0, count, 64):
        part = problems[i : i + 64]
        inputs = tokenizer(
            [prompt_text(p.question, "chat") for p in part], padding=True, return_tensors="pt"
        )
        ids = model.generate(**inputs, max_new_tokens=320, do_sample=False)
        texts = tokenizer.batch_decode(ids[:, inputs["input_ids"].shape[1] :])
        right += sum(rf"\boxed{{{p.answer}}}" in t for p, t in zip(part, texts, strict=True))
    return right / count


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Make the demo pair.")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument(
        "--role", choices=("all", "problems", "tokenizer", "large", "small"), default="all"
    )
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--every", type=int, default=400, help="steps between evaluations")
    parser.add_argument("--minutes", type=float, default=0.0, help="length by the clock")
    parser.add_argument("--resume", action="store_true", help="start from saved weights")
    parser.add_argument("--rate", type=float, default=1.0, help="scale of the learning rates")
    args = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(1)
    if args.role in ("all", "problems"):
        write_problems(args.output)
    if args.role in ("all", "tokenizer"):
        train_tokenizer(args.seed).save_pretrained(args.output / "tokenizer")
    for role in ("small", "large"):
        if args.role in ("all", role):
            steps = RECIPES[role].steps
            plan = Plan(steps, args.minutes, args.seed, args.resume, args.every, args.rate)
            train_model(role, args.output, plan)


if __name__ == "__main__":
    main()
