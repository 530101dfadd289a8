"""A counter of a method's forward and backward passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from explearn.lens.hooks import Hooks


@dataclass(slots=True)
class Passes:
    """The numbers of texts that passed the classifier; a batch of 8 texts counts as 8.

    Attributes:
        forward: texts in forward passes.
        backward: texts in backward passes.
    """

    forward: int = 0
    backward: int = 0


@contextmanager
def count_passes(model: nn.Module) -> Iterator[Passes]:
    """Count the passes through a sequence classifier made inside the block.

    A backward pass counts when it starts at the logits; gradients with respect to several classes count several times.
    """
    passes = Passes()

    def on_backward(gradient: Tensor) -> None:
        passes.backward += len(gradient)

    def on_forward(_module: nn.Module, _args: object, _kwargs: object, output: Any) -> None:
        passes.forward += len(output.logits)
        if output.logits.requires_grad:
            output.logits.register_hook(on_backward)

    with Hooks() as hooks:
        hooks.after(model, on_forward)
        yield passes
