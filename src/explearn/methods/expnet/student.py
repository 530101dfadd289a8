"""The network that scores words, and its training on targets between 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Self

import torch
from torch import nn

from explearn.methods.base.training import descend, epoch_bar, seeded
from explearn.methods.expnet.params import ExpNetParams

Shift = Callable[[torch.Tensor, int], torch.Tensor]
"""Of numbers of words, (..., width), and a distance: those of the word so many places further on in the same text, 0
where there is none."""


@dataclass(frozen=True, slots=True)
class Words:
    """Training words, those of several texts end to end.

    inputs: float32, (words, width). texts: int64, (words,), the number of each word's text. targets: float32, (words,),
    how far each is evidence, 0 to 1. weights: float32, (words,), 1 on average.
    """

    inputs: torch.Tensor
    texts: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor

    def only(self, columns: Sequence[int]) -> Words:
        """The same words with some of the inputs."""
        return Words(self.inputs[:, list(columns)], self.texts, self.targets, self.weights)


def with_context(inputs: torch.Tensor, texts: torch.Tensor, context: int) -> torch.Tensor:
    """Inputs of each word and of the words around it in its text, 0 beyond the ends: (words, (2 context + 1) width).

    Args:
        inputs: (words, width), the words of each text together, in order. texts: (words,), the number of each's text.
    """
    if not context:
        return inputs
    shift = shift_in(texts)
    return torch.cat([shift(inputs, by) for by in range(-context, context + 1)], 1)


def shift_in(texts: torch.Tensor) -> Shift:
    """What gives each word the numbers of another word of its text, (words, ...).

    Args:
        texts: (words,), the number of each word's text, the words of each text together, in order.
    """
    places = torch.arange(len(texts), device=texts.device)

    @cache
    def beside(by: int) -> tuple[torch.Tensor, torch.Tensor]:
        place = (places + by).clamp(0, len(texts) - 1)
        return place, ((place == places + by) & (texts[place] == texts))[:, None]

    def shift(numbers: torch.Tensor, by: int) -> torch.Tensor:
        place, inside = beside(by)
        return numbers[place] * inside

    return shift


class Outputs(nn.Module):
    """One output for each of several networks, from its own units: (words, networks hidden) -> (words, networks)."""

    def __init__(self, networks: int, hidden: int) -> None:
        super().__init__()
        bound = hidden**-0.5
        self.weight = nn.Parameter(torch.empty(networks, hidden).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(networks).uniform_(-bound, bound))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = (x.view(*x.shape[:-1], *self.weight.shape) * self.weight).sum(-1) + self.bias
        return found


class Student(nn.Module):
    """Standardise - join the words around - several networks of dropout - Linear - ReLU - dropout - Linear(hidden, 1).

    Its logit is the mean of theirs. They share what drop-out leaves of the inputs, and each learns by itself. With
    option `reach` the last layer reads the hidden units of the words around, too.
    """

    offset: torch.Tensor
    scale: torch.Tensor

    def __init__(self, width: int, options: ExpNetParams) -> None:
        super().__init__()
        self.context = options.context
        self.register_buffer("offset", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))
        self.network = nn.Sequential(
            nn.Dropout(options.input_dropout),
            nn.Linear((2 * options.context + 1) * width, options.networks * options.hidden),
            nn.ReLU(),
            nn.Dropout(options.dropout),
            Outputs(options.networks, options.hidden),
        )
        self.sides = [by for by in range(-options.reach, options.reach + 1) if by]
        # From 0 on: each word by itself.
        self.around = nn.ParameterList(nn.Parameter(torch.zeros(options.networks, options.hidden)) for _ in self.sides)

    def read(self, inputs: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        """What the network takes of each word, (words, (2 context + 1) width), from (words, width) and (words,)."""
        standardised: torch.Tensor = (inputs - self.offset) / self.scale
        return with_context(standardised, texts, self.context)

    def forward(self, inputs: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        """Logits, (words,), from (words, width) and the number of each word's text, (words,)."""
        return self.logits(self.read(inputs, texts), shift_in(texts)).mean(-1)

    def logits(self, read: torch.Tensor, shift: Shift) -> torch.Tensor:
        """The networks' logits, (..., networks), from what is read of each word."""
        if not self.sides:
            found: torch.Tensor = self.network(read)
            return found
        units = read
        for layer in list(self.network)[:-1]:
            units = layer(units)
        found = self.network[-1](units)
        by_network = units.view(*units.shape[:-1], found.shape[-1], -1)
        for weight, by in zip(self.around, self.sides, strict=True):
            found = found + shift((by_network * weight).sum(-1), by)
        return found

    def loss(
        self, read: torch.Tensor, texts: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        """Mean over words and networks, from what is read of each word and the fields of `Words`."""
        logits = self.logits(read, shift_in(texts))
        return nn.functional.binary_cross_entropy_with_logits(
            logits, targets[:, None].expand_as(logits), weights[:, None]
        )

    def freeze(self) -> Self:
        """Ready to explain: no dropout, no gradients."""
        return self.requires_grad_(False).eval()

    @property
    def importance(self) -> torch.Tensor:
        """How much each input weighs: the length of its weights in the hidden layer, at all places, (width,)."""
        first = self.network[1]
        assert isinstance(first, nn.Linear)
        weights = first.weight.detach()
        found: torch.Tensor = weights.view(len(weights), 2 * self.context + 1, -1).norm(dim=(0, 1))
        return found


def passes(words: int, options: ExpNetParams) -> int:
    """How often training goes over so many words: `epochs` times, or as often as `steps` allows, once at least."""
    return max(1, min(options.epochs, options.steps // math.ceil(words / options.batch_size)))


def batches(texts: torch.Tensor, options: ExpNetParams) -> Iterator[torch.Tensor]:
    """The words of each step of one pass, in a new order: by themselves, or, where neighbours count, by whole texts.

    Args:
        texts: (words,), the number of each word's text, the words of each text together.
    """
    if not options.reach:
        yield from torch.split(torch.randperm(len(texts)), options.batch_size)
        return
    _, counts = torch.unique_consecutive(texts.cpu(), return_counts=True)
    words = torch.split(torch.arange(len(texts)), counts.tolist())
    steps = math.ceil(len(texts) / options.batch_size)
    for chosen in torch.split(torch.randperm(len(words)), math.ceil(len(words) / steps)):
        yield torch.cat([words[text] for text in chosen.tolist()])


def train_student(
    words: Words, options: ExpNetParams, seed: int, device: torch.device, description: str | None = None
) -> tuple[Student, list[float]]:
    """Train on all words; returns the network, on the CPU, and the mean loss of each epoch.

    Loss: weighted binary cross-entropy of each network against the targets, with AdamW.
    """
    losses = []
    with seeded(seed, device):
        student = Student(words.inputs.shape[1], options)
        student.offset.copy_(words.inputs.mean(0))
        student.scale.copy_(words.inputs.std(0, correction=0).clamp_min(1e-6))
        student.to(device)
        y, w = words.targets.to(device), words.weights.to(device)
        texts = words.texts.to(device)
        x = student.read(words.inputs.to(device), texts)
        optimizer = torch.optim.AdamW(student.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay)
        epochs = epoch_bar(passes(len(x), options), description)
        for _ in epochs:
            total = 0.0
            for step in batches(words.texts, options):
                chosen = step.to(device)
                loss = student.loss(x[chosen], texts[chosen], y[chosen], w[chosen])
                descend(loss, optimizer)
                total += loss.item() * len(chosen)
            losses.append(total / len(x))
            epochs.set_postfix(loss=f"{losses[-1]:.4f}")
    return student.cpu().freeze(), losses
