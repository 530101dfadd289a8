"""The network that scores words, and its training on targets between 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import nn

from explearn.methods.base.training import descend, epoch_bar, seeded
from explearn.methods.expnet.params import ExpNetParams


@dataclass(frozen=True, slots=True)
class Words:
    """Training words, those of several texts end to end.

    inputs: float32, (words, width). targets: float32, (words,), how far each is evidence, 0 to 1. weights: float32,
    (words,), 1 on average.
    """

    inputs: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor

    def only(self, columns: Sequence[int]) -> Words:
        """The same words with some of the inputs."""
        return Words(self.inputs[:, list(columns)], self.targets, self.weights)


class Student(nn.Module):
    """Standardise - dropout - Linear(width, hidden) - ReLU - dropout - Linear(hidden, 1)."""

    offset: torch.Tensor
    scale: torch.Tensor

    def __init__(self, width: int, options: ExpNetParams) -> None:
        super().__init__()
        self.register_buffer("offset", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))
        self.network = nn.Sequential(
            nn.Dropout(options.input_dropout),
            nn.Linear(width, options.hidden),
            nn.ReLU(),
            nn.Dropout(options.dropout),
            nn.Linear(options.hidden, 1),
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Logits, (words,), from (words, width)."""
        found: torch.Tensor = self.network((inputs - self.offset) / self.scale)
        return found.squeeze(-1)

    def freeze(self) -> Self:
        """Ready to explain: no dropout, no gradients."""
        return self.requires_grad_(False).eval()

    @property
    def importance(self) -> torch.Tensor:
        """How much each input weighs: the length of its weights in the hidden layer, (width,)."""
        first = self.network[1]
        assert isinstance(first, nn.Linear)
        return first.weight.detach().norm(dim=0)


def train_student(
    words: Words, options: ExpNetParams, seed: int, device: torch.device, description: str | None = None
) -> tuple[Student, list[float]]:
    """Train on all words; returns the network, on the CPU, and the mean loss of each epoch.

    Loss: weighted binary cross-entropy against the targets, with AdamW.
    """
    losses = []
    with seeded(seed, device):
        student = Student(words.inputs.shape[1], options)
        student.offset.copy_(words.inputs.mean(0))
        student.scale.copy_(words.inputs.std(0, correction=0).clamp_min(1e-6))
        student.to(device)
        x, y, w = (part.to(device) for part in (words.inputs, words.targets, words.weights))
        optimizer = torch.optim.AdamW(student.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay)
        epochs = epoch_bar(options.epochs, description)
        for _ in epochs:
            total = 0.0
            for chosen in torch.randperm(len(x)).to(device).split(options.batch_size):
                loss = nn.functional.binary_cross_entropy_with_logits(student(x[chosen]), y[chosen], w[chosen])
                descend(loss, optimizer)
                total += loss.item() * len(chosen)
            losses.append(total / len(x))
            epochs.set_postfix(loss=f"{losses[-1]:.4f}")
    return student.cpu().freeze(), losses
