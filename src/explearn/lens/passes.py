"""Counting how many forward and backward passes a method makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from explearn.core.errors import UnsupportedError

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(slots=True)
class Passes:
    """Texts sent through the classifier, forward and backward; a batch of 8 texts counts as 8."""

    forward: int = 0
    backward: int = 0


def _last_layer(model: nn.Module) -> nn.Module:
    """The map that gives the logits: every pass goes through it, even one that runs the model part by part."""
    from explearn.lens.anatomy import dissect

    try:
        return dissect(model).head.classifier
    except UnsupportedError:
        return model


@contextmanager
def count_passes(model: nn.Module) -> Iterator[Passes]:
    """Count the passes through a sequence classifier made inside the block.

    A backward pass counts when it starts at the logits; gradients with respect to several classes count several times.
    """
    import torch

    passes = Passes()

    def on_backward(gradient: torch.Tensor) -> None:
        passes.backward += len(gradient)

    def on_forward(_module: nn.Module, _inputs: object, output: object) -> None:
        logits = output if isinstance(output, torch.Tensor) else getattr(output, "logits", None)
        assert isinstance(logits, torch.Tensor)
        passes.forward += len(logits)
        if logits.requires_grad:
            logits.register_hook(on_backward)  # type: ignore[no-untyped-call]

    handle = _last_layer(model).register_forward_hook(on_forward)
    try:
        yield passes
    finally:
        handle.remove()
