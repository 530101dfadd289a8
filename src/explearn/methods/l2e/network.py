"""L2E's network: a small one that reads the hidden states of the pass that classifies a text.

b = batch, n = tokens, C = classes, K = sets of words that were kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from explearn.core.errors import DataError
from explearn.methods.base.training import seeded, train_epochs
from explearn.methods.l2e.params import L2EParams
from explearn.methods.l2e.student import PreNormBlock
from explearn.predictors.batching import random_batches

DROPOUT = 0.3
"""Share of the inputs, and of the units they feed, dropped in training."""

BATCH_TEXTS = 32
"""Texts a step."""

SORTED_BATCHES = 8
"""Batches' worth of texts that are sorted by length together."""

WEIGHT_DECAY = 0.02
"""Of AdamW."""


class NetworkOutput(NamedTuple):
    """The outputs of the network for a batch.

    scores: (b, n, C). units: (b, width), a text's mean hidden units. marks: (b, n), the logit that a person would mark
    a sub-token's word.
    """

    scores: torch.Tensor
    units: torch.Tensor
    marks: torch.Tensor


class StateNetwork(nn.Module):
    """Standardise - Linear - ReLU - Transformer block - layer norm - Linear: hidden states to scores of every class.

    A second last layer says which words a person would mark.

    Args:
        inputs: numbers read of a sub-token, the hidden states of several layers end to end.
        classes: C.
        width: of the block, a multiple of HEADS.
    """

    def __init__(self, inputs: int, classes: int, width: int) -> None:
        super().__init__()
        self.offset = nn.Buffer(torch.zeros(inputs))
        self.scale = nn.Buffer(torch.ones(inputs))
        self.unit = nn.Buffer(torch.ones(()))
        self.read = nn.Linear(inputs, width)
        self.block = PreNormBlock(width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)
        self.people = nn.Linear(width, 1)

    def standardise(self, states: torch.Tensor) -> None:
        """Give the inputs mean 0 and deviation 1 over the sub-tokens of some texts, (tokens, inputs)."""
        self.offset.copy_(states.mean(0))
        self.scale.copy_(states.std(0, correction=0).clamp_min(1e-6))

    def forward(self, states: torch.Tensor, real: torch.Tensor) -> NetworkOutput:
        """Score each sub-token's share in the answer for each class, in the unit of the answers.

        Args:
            states: (b, n, inputs). real: bool, (b, n), False at padding.
        """
        inputs = functional.dropout((states.float() - self.offset) / self.scale, DROPOUT, self.training)
        units = self.read(inputs).relu()
        x = functional.dropout(units, DROPOUT, self.training)
        read = self.norm(self.block(x, real[:, None, None]))
        weights = real[..., None].to(units.dtype)
        return NetworkOutput(
            self.head(read) * self.unit, (units * weights).sum(1) / weights.sum(1), self.people(read)[..., 0]
        )


class TrainingText(NamedTuple):
    """A text with what is learned of it.

    states: float16, (n, inputs). kept: bool, (K, n), the sub-tokens of the words that were kept. values: float32,
    (K, C): what the scores of these are to add up to, up to one constant a class if `centred`; NaN where not known.
    marks: float32, (n,), how far a sub-token's word is evidence for people, 0 to 1; NaN where not known.
    """

    states: torch.Tensor
    kept: NDArray[np.bool_]
    values: NDArray[np.float32]
    marks: NDArray[np.float32]


def train_network(
    texts: Sequence[TrainingText],
    options: L2EParams,
    device: torch.device,
    centred: bool,
    description: str | None = None,
) -> tuple[StateNetwork, list[float]]:
    """Train on all texts; return the network, on the CPU, and the mean loss of each epoch.

    Loss: the mean square by which sums of scores miss the values (as in FastSHAP, Jethani et al. 2022, section 3), in
    units of the values' standard deviation; and where marks are known, the binary cross-entropy against them.

    Raises DataError where all values of each text are the same.
    """
    values = [text.values - np.nanmean(text.values, 0) if centred else text.values for text in texts]
    spread = np.sqrt(np.mean([np.nanmean(of_text**2) for of_text in values]))
    if not spread > 1e-6:
        raise DataError(
            f"what is to be learned of the {len(texts):,} training texts is the same whichever words are left out; "
            "expected a classifier whose answers depend on the words"
        )
    with seeded(options.seed, device):
        states = torch.cat([text.states.float() for text in texts[:: max(1, len(texts) // 500)]])
        network = StateNetwork(states.shape[1], texts[0].values.shape[1], options.width)
        network.standardise(states)
        network.unit.fill_(float(spread))
        network.to(device)
        lengths = [len(text.states) for text in texts]
        steps = -(-len(texts) // BATCH_TEXTS) * options.epochs
        optimizer = torch.optim.AdamW(network.parameters(), weight_decay=WEIGHT_DECAY)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.learning_rate, total_steps=steps + 1)
        generator = torch.Generator().manual_seed(options.seed)
        course = train_epochs(
            [network],
            optimizer,
            lambda: random_batches(lengths, BATCH_TEXTS, generator, SORTED_BATCHES),
            lambda batch: _loss(network, [texts[i] for i in batch], centred, device),
            options.epochs,
            clipped=list(network.parameters()),
            schedule=schedule,
            description=description,
        )
    return network.cpu().requires_grad_(False), course.losses


def _loss(network: StateNetwork, texts: Sequence[TrainingText], centred: bool, device: torch.device) -> torch.Tensor:
    states = pad_sequence([text.states.float() for text in texts], batch_first=True)
    real = pad_sequence([torch.ones(len(text.states), dtype=torch.bool) for text in texts], batch_first=True)
    values, marks = (
        pad_sequence([torch.from_numpy(part) for part in parts], batch_first=True, padding_value=torch.nan).to(device)
        for parts in ([text.values for text in texts], [text.marks for text in texts])
    )
    kept = torch.zeros(*values.shape[:2], states.shape[1])
    for row, text in enumerate(texts):
        kept[row, : len(text.kept), : len(text.states)] = torch.from_numpy(text.kept)
    read = network(states.to(device), real.to(device))
    missed = (kept.to(device) @ read.scores - values) / network.unit
    if centred:
        missed = missed - missed.nanmean(1, keepdim=True)
    loss: torch.Tensor = missed[~values.isnan()].square().mean()
    if (known := ~marks.isnan()).any():
        loss = loss + functional.binary_cross_entropy_with_logits(read.marks[known], marks[known])
    return loss
