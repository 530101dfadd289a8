"""The training loop of the learned explainers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from explearn.core.bundles import CONFIG
from explearn.core.errors import ModelError

LARGEST_GRADIENT = 1.0
"""Largest gradient norm of a step (gradient clipping), as in transformers' Trainer."""

Score = float | tuple[float, ...] | None
"""How good an epoch was on validation texts; larger is better. None: it could not be measured."""

BatchT = TypeVar("BatchT", bound=Sized)

History = list[dict[str, Any]]
"""An entry for each epoch of a training; see `Course.history`."""

PATIENCE = 3
"""Epochs without a better one after which a training ends."""


class Course(NamedTuple):
    """The course of a training.

    Attributes:
        losses: mean loss of each epoch; a batch counts as often as it is long.
        best_epoch: the epoch that the modules were left at, from 1; 0: as they were before training.
        validated: whether any epoch had a score, so that the best could be told.
        ended: by what: no epoch was better for long enough, there were no more epochs, or no more time.
    """

    losses: list[float]
    best_epoch: int
    validated: bool
    ended: Literal["patience", "epochs", "time"]

    def history(self, measured: Sequence[Mapping[str, Any]] = ()) -> History:
        """Return an entry for each epoch: `epoch`, `loss`, whether it is the `best`, and what was measured.

        Args:
            measured: figures by epoch; if there is one more than epochs, the first are of the start, epoch 0.
        """
        losses: list[float | None] = [*self.losses]
        if len(measured) > len(losses):
            losses.insert(0, None)
        entries = []
        for epoch, loss in enumerate(losses, start=1 + len(self.losses) - len(losses)):
            entries.append({"epoch": epoch, "loss": loss, "best": epoch == self.best_epoch})
        for entry, figures in zip(entries, measured, strict=False):
            entry.update(figures)
        return entries


class _Limits(NamedTuple):
    patience: int = PATIENCE
    end: float = float("inf")
    """Processor time of this process at which no further epoch begins, in seconds."""
    courses: list[Course] | None = None


_LIMITS: ContextVar[_Limits] = ContextVar("limits")


@contextmanager
def limited(patience: int = PATIENCE, minutes: float | None = None) -> Iterator[list[Course]]:
    """End every training within the block by one rule, and list their courses.

    Args:
        patience: epochs without a better one after which a training ends.
        minutes: processor time from here on after which no further epoch begins. None: any.
    """
    end = float("inf")
    if minutes is not None:
        end = time.process_time() + 60 * minutes
    courses: list[Course] = []
    token = _LIMITS.set(_Limits(patience, end, courses))
    try:
        yield courses
    finally:
        _LIMITS.reset(token)


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
    description: str | None = None,
) -> Course:
    """Train modules in place, and leave them at their best epoch, in evaluation mode.

    With scores, training ends when no epoch was best for PATIENCE epochs, or as `limited` says.

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
        description: text of a progress bar. None: no bar.

    Returns:
        The losses, which epoch was the best, and why it ended.
    """
    limits = _LIMITS.get(_Limits())
    ended: Literal["patience", "epochs", "time"] = "epochs"
    together = nn.ModuleList(modules)
    best_epoch = 0
    best_score: Score = None
    weights: dict[str, Tensor] = {}
    losses: list[float] = []

    def keep_best(epoch: int, score: Score) -> None:
        """Copy the weights if `score` is above all before; until there is a score, copy the latest."""
        nonlocal best_epoch, best_score, weights
        if best_score is None or (score is not None and score > best_score):  # type: ignore[operator]
            best_epoch = epoch
            best_score = score
            # Other parameters must not change.
            trained = {name: value for name, value in together.named_parameters() if value.requires_grad}
            weights = {name: value.detach().clone() for name, value in trained.items()}

    if validate_first:
        together.eval()
        keep_best(0, validate(0, []))
    bar = tqdm(range(1, epochs + 1), desc=description, unit="epoch", disable=None if description else True)
    for epoch in bar:
        together.train()
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
        together.eval()
        losses.append(total / length)
        keep_best(epoch, validate(epoch, batch_losses))
        bar.set_postfix(loss=f"{losses[-1]:.4f}", best=best_epoch)
        if epoch - best_epoch >= limits.patience:
            ended = "patience"
            break
        if time.process_time() >= limits.end:
            ended = "time"
            break
    bar.close()
    together.load_state_dict(weights, strict=False)
    course = Course(losses, best_epoch, best_score is not None, ended)
    if limits.courses is not None:
        limits.courses.append(course)
    return course


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the global generator, used by dropout for example, within the block, and restore it afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def check_width(inputs: Tensor, width: int) -> None:
    """Raise ModelError unless there are as many inputs, (..., width), as the trained weights are for."""
    if inputs.shape[-1] != width:
        raise ModelError(
            f"the layers that {CONFIG} names give {inputs.shape[-1]:,} numbers a sub-token; expected the layers of the "
            f"training, which gave {width:,}"
        )


class Standardised(nn.Module):
    """Base of networks whose inputs have mean 0 and deviation 1 over the training data.

    Args:
        inputs: number of inputs.
    """

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.offset = nn.Buffer(torch.zeros(inputs))
        self.scale = nn.Buffer(torch.ones(inputs))

    def fit_inputs(self, inputs: Tensor) -> None:
        """Learn mean and deviation from training data, (n, inputs)."""
        self.offset.copy_(inputs.mean(0))
        self.scale.copy_(inputs.std(0, correction=0).clamp_min(1e-6))

    def standardise(self, inputs: Tensor) -> Tensor:
        """Return standardised inputs, (..., inputs).

        Raises:
            ModelError: as `check_width`.
        """
        check_width(inputs, len(self.offset))
        return (inputs - self.offset) / self.scale
