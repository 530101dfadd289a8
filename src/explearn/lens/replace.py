"""Putting a tensor in the place of what a layer puts out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from explearn.lens.threads import here_only


@contextmanager
def replaced_output(layer: nn.Module, output: torch.Tensor) -> Iterator[None]:
    """Let a layer put out `output`, (batch, tokens, ...), whatever its input, inside the block and in this
    thread.

    Where a model has lengthened its input by padding of its own (Longformer), the layer's own output follows behind.
    """

    def hook(_module: nn.Module, _inputs: object, own: torch.Tensor) -> torch.Tensor:
        tokens = output.shape[1]
        return output if own.shape[1] <= tokens else torch.cat([output, own[:, tokens:]], dim=1)

    handle = layer.register_forward_hook(here_only(hook))
    try:
        yield
    finally:
        handle.remove()
