"""Code shared by the training loops of learned explainers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from tqdm.auto import tqdm

LARGEST_GRADIENT = 1.0
"""Largest gradient norm of a step (gradient clipping), as in transformers' Trainer."""


def epoch_bar(epochs: int, description: str | None) -> tqdm[int]:
    """Return the numbers of the epochs, from 1, with a progress bar unless `description` is None."""
    return tqdm(range(1, epochs + 1), desc=description, unit="epoch", disable=None if description else True)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the global generator, used by dropout for example, within the block, and restore it afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def descend(
    loss: torch.Tensor,
    optimizer: torch.optim.Optimizer,
    clipped: Sequence[nn.Parameter] = (),
    check: Callable[[torch.Tensor], None] | None = None,
) -> None:
    """Take one step of the optimizer.

    Args:
        loss: a single number with its graph.
        clipped: parameters whose joint gradient is clipped to LARGEST_GRADIENT.
        check: called with the norm of that gradient before clipping; may raise to prevent the step.
    """
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(clipped, LARGEST_GRADIENT) if clipped else torch.zeros(())
    if check is not None:
        check(norm)
    optimizer.step()


class BestWeights:
    """A copy of some modules' trained weights, from the best epoch, that can be restored.

    Parameters that do not require gradients when the copy is made are not copied; they must not change.
    """

    def __init__(self, *modules: nn.Module) -> None:
        self._modules = modules
        self._kept: list[dict[str, torch.Tensor]] = []

    def keep(self) -> None:
        """Copy the current weights."""
        self._kept = [
            {name: value.detach().clone() for name, value in module.named_parameters() if value.requires_grad}
            for module in self._modules
        ]

    def restore(self) -> None:
        """Restore the latest copy."""
        for module, kept in zip(self._modules, self._kept, strict=True):
            keys: Any = module.load_state_dict(kept, strict=False)
            assert not keys.unexpected_keys
