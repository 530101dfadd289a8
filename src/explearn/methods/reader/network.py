"""Reader's network: from the hidden states of the pass that classifies to a score of each sub-token for every class.

b = batch, n = tokens, C = classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from explearn.core.arrays import Array32, Mask
from explearn.core.errors import DataError
from explearn.methods.base.training import History, Standardised, seeded, train_epochs
from explearn.methods.l2e.student import PreNormBlock
from explearn.methods.reader.params import ReaderParams
from explearn.predictors.batching import random_batches

DROPOUT = 0.3
"""Dropout rate of the inputs and of the units that they feed."""

BATCH_TEXTS = 32
"""Texts in a step."""

SORTED_BATCHES = 8
"""Batches' worth of texts that are sorted by length together."""

WEIGHT_DECAY = 0.02
"""Weight decay of AdamW."""

STANDARDISED_TEXTS = 500
"""Number of texts, about, over which the inputs are standardised."""


class NetworkOutput(NamedTuple):
    """The outputs of the network for a batch.

    Attributes:
        scores: (b, n, C).
        units: (b, width), a text's mean hidden units.
        marks: (b, n), the logit that a sub-token's word is marked.
    """

    scores: Tensor
    units: Tensor
    marks: Tensor


class StateNetwork(Standardised):
    """Standardise - Linear - ReLU - Transformer block - layer norm - Linear: hidden states to scores of every class.

    A second last layer says which words are marked.

    Args:
        inputs: numbers of a sub-token, the hidden states of several layers end to end.
        classes: C.
        width: width of the block, a multiple of HEADS.
    """

    def __init__(self, inputs: int, classes: int, width: int) -> None:
        super().__init__(inputs)
        self.unit = nn.Buffer(torch.ones(()))
        self.read = nn.Linear(inputs, width)
        self.block = PreNormBlock(width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)
        self.marks = nn.Linear(width, 1)

    def forward(self, states: Tensor, real: Tensor) -> NetworkOutput:
        """Score each sub-token's share in the answer for each class, in the unit of the answers.

        Args:
            states: (b, n, inputs).
            real: bool, (b, n), False at padding.
        """
        inputs = functional.dropout(self.standardise(states.float()), DROPOUT, self.training)
        units = self.read(inputs).relu()
        x = functional.dropout(units, DROPOUT, self.training)
        x = self.norm(self.block(x, real[:, None, None]))
        weights = real[..., None].to(units.dtype)
        mean_units = (units * weights).sum(1) / weights.sum(1)
        return NetworkOutput(self.head(x) * self.unit, mean_units, self.marks(x)[..., 0])


class TrainingText(NamedTuple):
    """A text with what is learned from it; K sets of words.

    Attributes:
        states: float16 or float32, (n, inputs).
        kept: bool, (K, n), the sub-tokens of the words in each set.
        values: float32, (K, C), what the scores of each set are to add up to, up to one constant a class if `centred`;
            NaN where unknown.
        marks: float32, (n,), how far a sub-token's word is evidence by the marks, 0 to 1; NaN where unknown.
    """

    states: Tensor
    kept: Mask
    values: Array32
    marks: Array32


def train_network(
    texts: Sequence[TrainingText],
    options: ReaderParams,
    device: torch.device,
    centred: bool,
    description: str | None = None,
) -> tuple[StateNetwork, History]:
    """Train on all texts.

    Loss: the mean squared difference between sums of scores and the values (as in FastSHAP, Jethani et al. 2022,
    section 3), in units of the values' standard deviation; plus, where marks are known, the binary cross-entropy.

    Args:
        texts: texts to learn from.
        options: options of Reader.
        device: device to train on.
        centred: whether sums of scores may differ from the values by a constant for each text and class.
        description: text of a progress bar. None: no bar.

    Returns:
        The network, on the CPU, and the epochs.

    Raises:
        DataError: all values of each text are the same.
    """
    spread = _spread(texts, centred)
    if not spread > 1e-6:
        raise DataError(
            f"what is to be learned of the {len(texts):,} training texts is the same whichever words are left out; "
            "expected a classifier whose answers depend on the words"
        )

    def batch_loss(batch: list[int]) -> Tensor:
        chosen = [texts[i] for i in batch]
        states = pad_sequence([text.states.float() for text in chosen], batch_first=True)
        real = pad_sequence([torch.ones(len(text.states), dtype=torch.bool) for text in chosen], batch_first=True)
        values = _padded([text.values for text in chosen]).to(device)
        marks = _padded([text.marks for text in chosen]).to(device)
        kept = torch.zeros(*values.shape[:2], states.shape[1])
        for row, text in enumerate(chosen):
            kept[row, : len(text.kept), : len(text.states)] = torch.from_numpy(text.kept)
        output = network(states.to(device), real.to(device))
        missed = (kept.to(device) @ output.scores - values) / network.unit
        if centred:
            missed = missed - missed.nanmean(1, keepdim=True)
        loss: Tensor = missed[~values.isnan()].square().mean()
        marked = ~marks.isnan()
        if marked.any():
            loss = loss + functional.binary_cross_entropy_with_logits(output.marks[marked], marks[marked])
        return loss

    with seeded(options.seed, device):
        some = texts[:: max(1, len(texts) // STANDARDISED_TEXTS)]
        states = torch.cat([text.states.float() for text in some])
        network = StateNetwork(states.shape[1], texts[0].values.shape[1], options.width)
        network.fit_inputs(states)
        network.unit.fill_(spread)
        network.to(device)
        lengths = [len(text.states) for text in texts]
        steps = math.ceil(len(texts) / BATCH_TEXTS) * options.epochs
        optimizer = torch.optim.AdamW(network.parameters(), weight_decay=WEIGHT_DECAY)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.learning_rate, total_steps=steps + 1)
        generator = torch.Generator().manual_seed(options.seed)
        course = train_epochs(
            [network],
            optimizer,
            lambda: random_batches(lengths, BATCH_TEXTS, generator, SORTED_BATCHES),
            batch_loss,
            options.epochs,
            clipped=list(network.parameters()),
            schedule=schedule,
            description=description,
        )
    return network.cpu().requires_grad_(False), course.history()


def _spread(texts: Sequence[TrainingText], centred: bool) -> float:
    """Return the root mean square of the values, which are centred in each text if `centred`."""
    squares = []
    for text in texts:
        values = text.values
        if centred:
            values = values - np.nanmean(values, 0)
        squares.append(np.nanmean(values**2))
    return float(np.sqrt(np.mean(squares)))


def _padded(arrays: Sequence[Array32]) -> Tensor:
    rows = [torch.from_numpy(array) for array in arrays]
    return pad_sequence(rows, batch_first=True, padding_value=torch.nan)
