"""Compiling the decode step, for one row and for any number, and the catch-up of one row."""

from __future__ import annotations

from collections.abc import Callable

import torch

Step = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def varies(tensor: torch.Tensor, dim: int) -> torch.Tensor:
    """Tell the compiler that this size changes between steps; returns the tensor."""
    torch._dynamo.maybe_mark_dynamic(tensor, dim)
    return tensor


def compiled_read(read: Step) -> Step:
    """Compile a catch-up of one row `(ids [1, q], starts [1], columns [width]) -> logits [1, V]`.

    At every handoff a few tokens are read; one program serves any number of them.
    """
    run = torch.compile(read)

    def call(ids: torch.Tensor, starts: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = run(varies(ids, 1), starts, columns)
        return logits

    return call


def compiled_step(step: Step) -> Step:
    """Compile a step `(ids [n, 1], starts [n], columns [width]) -> logits [n, V]`.

    The number of rows and the width change from step to step; they are told to the compiler
    beforehand, so that it makes one program for one row and one for all other numbers.
    What it makes is kept on disk by torch and found again by the next process.
    """
    run = torch.compile(step)

    def call(ids: torch.Tensor, starts: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        if len(ids) > 1:
            varies(ids, 0)
            varies(starts, 0)
        logits: torch.Tensor = run(ids, starts, columns)
        return logits

    return call
