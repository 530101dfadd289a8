"""The training loop of the learned explainers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

LARGEST_GRADIENT = 1.0
"""Largest gradient norm of a step (gradient clipping), as in transformers' Trainer."""

Score = float | tuple[float, ...] | None
"""How good an epoch was on validation texts; larger is better. None: it could not be measured."""

BatchT = TypeVar("BatchT", bound=Sized)


class Course(NamedTuple):
    """The course of a training.

    Attributes:
        losses: mean loss of each epoch; a batch counts as often as it is long.
        best_epoch: the epoch that the modules were left at, from 1; 0: as they were before training.
    """

    losses: list[float]
    best_epoch: int


def train_epochs(
    modules: Sequence[nn.Module],
    optimizer: torch.optim.Optimizer,
    batches: Callable[[], Iterable[BatchT]],
    batch_loss: Callable[[BatchT], Tensor],
    epochs: int,
    *,
    clipped: Sequence[nn.Parameter] = (),
    schedule: torch.optim.lr_scheduler.LRScheduler | None = None,
    validate: Callable[[int, list[float]], Score] = lambda epoch, losses: None,
    validate_first: bool = False,
    patience: int | None = None,
    description: str | None = None,
) -> Course:
    """Train modules in place, and leave them at their best epoch, in evaluation mode.

    To look at the gradients before a step, register a step pre-hook of the optimizer. Whatever `batches`, `batch_loss`
    or `validate` raises ends the training.

    Args:
        modules: what is trained, in training mode during an epoch.
        optimizer: optimizer of the modules' parameters.
        batches: called at the start of each epoch for its batches.
        batch_loss: mean loss of a batch, a single number with its graph.
        epochs: most epochs.
        clipped: parameters whose joint gradient is clipped to LARGEST_GRADIENT.
        schedule: stepped after each step of the optimizer.
        validate: called after each epoch, in evaluation mode, with its number from 1 and the losses of its batches.
            Without any score, the last epoch is the best.
        validate_first: validate before training, too, as epoch 0 without losses.
        patience: stop when no epoch was best for so many epochs. None: never.
        description: text of a progress bar. None: no bar.

    Returns:
        The losses, and which epoch was the best.
    """
    best = BestWeights(*modules)
    losses: list[float] = []
    if validate_first:
        _set_training(modules, False)
        best.offer(0, validate(0, []))
    bar = tqdm(range(1, epochs + 1), desc=description, unit="epoch", disable=None if description else True)
    for epoch in bar:
        _set_training(modules, True)
        batch_losses = []
        total = 0.0
        length = 0
        for batch in batches():
            loss = batch_loss(batch)
            optimizer.zero_grad()
            loss.backward()
            if clipped:
                nn.utils.clip_grad_norm_(clipped, LARGEST_GRADIENT)
            optimizer.step()
            if schedule is not None:
                schedule.step()
            batch_losses.append(loss.item())
            total += batch_losses[-1] * len(batch)
            length += len(batch)
        _set_training(modules, False)
        losses.append(total / length)
        best.offer(epoch, validate(epoch, batch_losses))
        bar.set_postfix(loss=f"{losses[-1]:.4f}", best=best.epoch)
        if patience is not None and epoch - best.epoch >= patience:
            break
    bar.close()
    best.restore()
    return Course(losses, best.epoch)


def _set_training(modules: Iterable[nn.Module], training: bool) -> None:
    for module in modules:
        module.train(training)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the global generator, used by dropout for example, within the block, and restore it afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


class BestWeights:
    """A copy of some modules' trained weights, from the best epoch, that can be restored.

    Parameters that do not require gradients when the copy is made are not copied; they must not change.

    Attributes:
        epoch: the epoch of the copy.
        score: its score; None if no epoch had one.
    """

    def __init__(self, *modules: nn.Module) -> None:
        self.epoch = 0
        self.score: Score = None
        self._modules = modules
        self._copies: list[dict[str, Tensor]] = []

    def offer(self, epoch: int, score: Score) -> None:
        """Copy the current weights if `score` is above all before; until there is a score, copy the latest."""
        if self.score is None or (score is not None and score > self.score):  # type: ignore[operator]
            self.epoch = epoch
            self.score = score
            self._copies = [_trained_weights(module) for module in self._modules]

    def restore(self) -> None:
        """Restore the latest copy."""
        for module, weights in zip(self._modules, self._copies, strict=True):
            module.load_state_dict(weights, strict=False)


def _trained_weights(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.named_parameters() if value.requires_grad}
