"""Marker's network, from a word's attention to the probability that it is evidence, and its training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from explearn.core.arrays import Counts
from explearn.methods.base.training import History, Standardised, seeded, train_epochs
from explearn.methods.marker.params import MarkerParams
from explearn.text.alignment import NO_WORD

FLOOR = 1e-5
"""Value added to an attention weight before the logarithm, so that a weight of zero counts like a small one."""

CONTEXT = 1
"""Number of neighbours on each side whose inputs are read with a word's own, since marks are phrases."""

NETWORKS = 3
"""Number of networks trained together from different initial weights; the logit is the mean of theirs."""

WEIGHT_DECAY = 0.01
"""Weight decay of AdamW."""

BATCH_WORDS = 512
"""Words in a step; the average if a step takes whole texts."""

MOST_STEPS = 3000
"""Most training steps: with many words there are fewer epochs than `epochs`, but at least one."""

Shift = Callable[[Tensor, int], Tensor]
"""A function that shifts word features, (..., width), by a number of words within each text, padding with 0."""


class Regime(NamedTuple):
    """What depends on whether the texts are marked.

    Attributes:
        input_dropout: dropout rate of the inputs.
        dropout: dropout rate of the hidden units.
        reach: number of neighbours on each side whose hidden units are read with a word's own; if it is above 0, a step
            takes whole texts.
    """

    input_dropout: float
    dropout: float
    reach: int


WITHOUT_MARKS = Regime(0.1, 0.2, 0)
WITH_MARKS = Regime(0.3, 0.5, 1)
"""The regime for marked texts: they are few, so more is dropped; marks are phrases, so more context is read."""


def log_attention(attention: Tensor) -> Tensor:
    """Return log(A + FLOOR). Attention weights span orders of magnitude: ratios tell more than differences."""
    return (attention + FLOOR).log_()


class PooledWords(NamedTuple):
    """The words of one text or batch.

    Attributes:
        values: (words, width).
        owners: int64, (words,), the number of each word.
        rows: int64, (positions,), the row of `values` that a position belongs to, -1 if none.
    """

    values: Tensor
    owners: Counts
    rows: Counts


def pool_words(values: Tensor, owners: Counts) -> PooledWords:
    """Take the largest value over the pieces of each word, column by column.

    Args:
        values: (positions, width), none below 0.
        owners: int64, (positions,), the word of each position; NO_WORD if none.
    """
    real = owners != NO_WORD
    words, inverse = np.unique(owners[real], return_inverse=True)
    rows = np.full(len(owners), -1, dtype=np.int64)
    rows[real] = inverse
    index = torch.from_numpy(inverse).to(values.device)[:, None].expand(-1, values.shape[1])
    pieces = values[torch.from_numpy(real).to(values.device)]
    largest = values.new_zeros(len(words), values.shape[1]).scatter_reduce(0, index, pieces, "amax")
    return PooledWords(largest, words, rows)


class TrainingWords(NamedTuple):
    """The training words of several texts, concatenated.

    Attributes:
        inputs: float32, (words, width).
        texts: int64, (words,), the number of each word's text.
        targets: float32, (words,), how far each word is evidence, 0 to 1.
        weights: float32, (words,), 1 on average.
    """

    inputs: Tensor
    texts: Tensor
    targets: Tensor
    weights: Tensor


def shift_in(texts: Tensor) -> Shift:
    """Make the shift for concatenated texts.

    Args:
        texts: (words,), the number of each word's text, the words of each text together, in order.
    """
    positions = torch.arange(len(texts), device=texts.device)

    def shift(values: Tensor, by: int) -> Tensor:
        neighbours = (positions + by).clamp(0, len(texts) - 1)
        inside = (neighbours == positions + by) & (texts[neighbours] == texts)
        return values[neighbours] * inside[:, None]

    return shift


def with_context(inputs: Tensor, shift: Shift) -> Tensor:
    """Join the inputs of each word with those of its neighbours, (..., width) -> (..., (2 CONTEXT + 1) width)."""
    return torch.cat([shift(inputs, by) for by in range(-CONTEXT, CONTEXT + 1)], -1)


class Outputs(nn.Module):
    """A layer with one output for each of several networks: (words, networks hidden) -> (words, networks).

    Args:
        networks: number of networks.
        hidden: hidden units of each.
    """

    def __init__(self, networks: int, hidden: int) -> None:
        super().__init__()
        bound = hidden**-0.5
        self.weight = nn.Parameter(torch.empty(networks, hidden).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(networks).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = (x.view(*x.shape[:-1], *self.weight.shape) * self.weight).sum(-1) + self.bias
        return outputs


class WordNetwork(Standardised):
    """The mean of several networks, dropout - Linear - ReLU - dropout - Linear(hidden, 1) on standardised inputs.

    The inputs are those of a word and its neighbours. The networks share the dropout mask of the inputs but are trained
    independently. With `reach`, the last layer also reads the hidden units of neighbouring words.

    Args:
        width: number of a word's inputs.
        hidden: hidden units of each network.
        regime: dropout rates and reach.
    """

    def __init__(self, width: int, hidden: int, regime: Regime) -> None:
        super().__init__(width)
        self.network = nn.Sequential(
            nn.Dropout(regime.input_dropout),
            nn.Linear((2 * CONTEXT + 1) * width, NETWORKS * hidden),
            nn.ReLU(),
            nn.Dropout(regime.dropout),
            Outputs(NETWORKS, hidden),
        )
        self.sides = [by for by in range(-regime.reach, regime.reach + 1) if by]
        # Starts at 0: each word is scored by itself.
        self.around = nn.ParameterList(nn.Parameter(torch.zeros(NETWORKS, hidden)) for _ in self.sides)

    def forward(self, inputs: Tensor, shift: Shift) -> Tensor:
        """Return logits, (...), from log attention, (..., width)."""
        return self.logits(with_context(self.standardise(inputs), shift), shift).mean(-1)

    def logits(self, read: Tensor, shift: Shift) -> Tensor:
        """Return the networks' logits, (..., networks), from `with_context` of standardised inputs."""
        *layers, outputs = self.network
        units = read
        for layer in layers:
            units = layer(units)
        logits: Tensor = outputs(units)
        by_network = units.view(*units.shape[:-1], NETWORKS, -1)
        for weight, by in zip(self.around, self.sides, strict=True):
            logits = logits + shift((by_network * weight).sum(-1), by)
        return logits


def train_network(
    words: TrainingWords,
    options: MarkerParams,
    regime: Regime,
    device: torch.device,
    description: str | None = None,
) -> tuple[WordNetwork, History]:
    """Train on all words with AdamW. Loss: weighted binary cross-entropy of each network against the targets.

    Args:
        words: words to learn from.
        options: options of Marker.
        regime: dropout rates and reach.
        device: device to train on.
        description: text of a progress bar. None: no bar.

    Returns:
        The network, on the CPU, and the epochs.
    """
    with seeded(options.seed, device):
        network = WordNetwork(words.inputs.shape[1], options.hidden, regime)
        network.fit_inputs(words.inputs)
        network.to(device)
        texts = words.texts.to(device)
        targets = words.targets.to(device)
        weights = words.weights.to(device)
        read = with_context(network.standardise(words.inputs.to(device)), shift_in(texts))
        optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate, weight_decay=WEIGHT_DECAY)
        steps = math.ceil(len(texts) / BATCH_WORDS)
        epochs = max(1, min(options.epochs, MOST_STEPS // steps))

        def batch_loss(batch: Tensor) -> Tensor:
            batch = batch.to(device)
            logits = network.logits(read[batch], shift_in(texts[batch]))
            wanted = targets[batch, None].expand_as(logits)
            return nn.functional.binary_cross_entropy_with_logits(logits, wanted, weights[batch, None])

        course = train_epochs(
            [network],
            optimizer,
            lambda: batches(words.texts, by_text=regime.reach > 0),
            batch_loss,
            epochs,
            description=description,
        )
    return network.cpu().requires_grad_(False), course.history()


def batches(texts: Tensor, by_text: bool) -> Iterator[Tensor]:
    """Yield the words of each step of an epoch in random order.

    Args:
        texts: (words,), the number of each word's text, the words of each text together.
        by_text: whether a step takes whole texts.
    """
    if not by_text:
        yield from torch.split(torch.randperm(len(texts)), BATCH_WORDS)
        return
    _, counts = torch.unique_consecutive(texts.cpu(), return_counts=True)
    words = torch.split(torch.arange(len(texts)), counts.tolist())
    steps = math.ceil(len(texts) / BATCH_WORDS)
    for chosen in torch.split(torch.randperm(len(words)), math.ceil(len(words) / steps)):
        yield torch.cat([words[text] for text in chosen.tolist()])
