"""Compiling short reads: one program for one row, and one for any other number."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch

Program = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


# Each forward has programs of its own, where torch can keep them apart: all share the same code,
# and beyond a number of programs for one code the compiler gives up without a word.
_APART = {"isolate_recompiles": True}
_OPTIONS = _APART if "isolate_recompiles" in inspect.signature(torch.compile).parameters else {}


def varies(tensor: torch.Tensor, dim: int) -> torch.Tensor:
    """Tell the compiler that this size changes between steps; returns the tensor."""
    torch._dynamo.maybe_mark_dynamic(tensor, dim)
    return tensor


def compiled(program: Program) -> Program:
    """Compile a forward `(ids [n, q], starts [n], columns [width]) -> logits`.

    Rows, tokens and width change from step to step; they are told to the compiler beforehand,
    so that it makes one program for one of each and one for all other numbers. What it makes
    is kept on disk by torch and found again by the next process.
    """
    run = torch.compile(program, **_OPTIONS)  # type: ignore[call-overload]

    def call(ids: torch.Tensor, starts: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        for dim in (0, 1):
            if ids.shape[dim] > 1:
                varies(ids, dim)
        if len(starts) > 1:
            varies(starts, 0)
        logits: torch.Tensor = run(ids, starts, columns)
        return logits

    return call
