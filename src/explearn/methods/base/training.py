"""What the training loops of the learned explainers share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from tqdm.auto import tqdm

LARGEST_GRADIENT = 1.0
"""Length to which the gradient of a step is scaled down, as in transformers' Trainer."""


def epoch_bar(epochs: int, description: str | None) -> tqdm[int]:
    """The numbers of the epochs, from 1 up, under a progress bar (description None: without)."""
    return tqdm(range(1, epochs + 1), desc=description, unit="epoch", disable=None if description else True)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Let what draws from the global generator, such as dropout, draw by `seed`; the generator is left as it was."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def descend(
    loss: torch.Tensor,
    optimizer: torch.optim.Optimizer,
    clipped: Sequence[nn.Parameter] = (),
    check: Callable[[torch.Tensor], None] | None = None,
) -> None:
    """One step of the optimizer.

    Args:
        loss: a single number with its graph.
        clipped: parameters whose gradient, all together, is cut to LARGEST_GRADIENT.
        check: called with the length of that gradient before it was cut; may raise before the step is taken.
    """
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(clipped, LARGEST_GRADIENT) if clipped else torch.zeros(())
    if check is not None:
        check(norm)
    optimizer.step()


class BestWeights:
    """A copy of what is trained in some modules, to go back to: that of the best epoch.

    What does not learn when the copy is taken (`requires_grad`) is not copied; it must stay as it is.
    """

    def __init__(self, *modules: nn.Module) -> None:
        self._modules = modules
        self._kept: list[dict[str, torch.Tensor]] = []

    def keep(self) -> None:
        """Copy the weights as they are now."""
        self._kept = [
            {name: value.detach().clone() for name, value in module.named_parameters() if value.requires_grad}
            for module in self._modules
        ]

    def restore(self) -> None:
        """Put back what `keep` copied last."""
        for module, kept in zip(self._modules, self._kept, strict=True):
            keys: Any = module.load_state_dict(kept, strict=False)
            assert not keys.unexpected_keys
