"""Passes that compute no more than what the classification head reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from explearn.core.errors import UnsupportedError
from explearn.lens.anatomy import dissect
from explearn.lens.threads import here_only, hooked


@contextmanager
def first_token_alone(model: nn.Module) -> Iterator[None]:
    """Within it, the last block's feed-forward part runs on the first token only, which is all that the head reads.

    The logits stay what they are but for rounding; of that block's matrix products two thirds go. Models that cannot be
    taken apart (`anatomy.dissect`) run as they are, and passes of other threads stay whole.
    """
    try:
        blocks = dissect(model).blocks
    except UnsupportedError:
        yield
        return
    norm = blocks[-1].attention_norm
    # Layers that share their weights (ALBERT) share this module too; the last of its runs is the last block's.
    runs = sum(block.attention_norm is norm for block in blocks)
    calls = 0

    def on_norm(_module: nn.Module, _inputs: object, output: torch.Tensor) -> torch.Tensor | None:
        nonlocal calls
        calls += 1
        return output[:, :1] if calls % runs == 0 else None

    def on_pass(_module: nn.Module, _inputs: object) -> None:
        nonlocal calls
        calls = 0  # a pass that ran out of memory left it anywhere

    with hooked([norm.register_forward_hook(here_only(on_norm)), model.register_forward_pre_hook(here_only(on_pass))]):
        yield
