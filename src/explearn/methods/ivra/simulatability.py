"""Criterion sim: students that predict the classifier, and the pilot update that trains its explanations by them.

Source: IvRA 2.2.1 and B.1-2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from explearn.lens.watch import content_mask
from explearn.methods.ivra.attention import AttentionModule, explain_batch
from explearn.metrics.simulatability import leading_axes, read_bags
from explearn.predictors.batching import random_batches
from explearn.predictors.encoding import Batch, Encoding
from explearn.predictors.transformer import TransformerPredictor

Parameters = dict[str, Tensor]

STUDENT_RATE = 0.5
"""Of the student's steps (SGD)."""
STUDENT_BATCH = 64
"""Texts whose explanations the student is shown in a step; it is asked about as many others."""
PILOT_STEPS = 10
"""Steps of SGD on one batch, through which the explanations learn: one in the paper (eq. 14)."""
DIVERGENCE_WEIGHT = 1.0
"""Weight of the divergence of explanations, beside the student's cross-entropy, while the student learns (eq. 7)."""
ASKED_WEIGHT = 0.0
"""The same while it is asked (1 in eq. 15): it is asked for classes alone, as in Fernandes et al. (2022) and in the
metric, for what a bag's own attention knows is too little to draw explanations to."""
DIMENSIONS = 32
"""Principal components of the embeddings that a bag reads."""


def piece_components(table: Tensor, pieces: Tensor) -> Tensor:
    """Return DIMENSIONS principal components of each piece's embedding, float32, (vocabulary, d), as the metric's.

    Args:
        table: word embeddings, (vocabulary, width).
        pieces: pieces of the texts that the components are taken over, with repetition, int64, (pieces,).
    """
    embeddings = table.double().cpu().numpy()
    seen = embeddings[pieces.numpy()]
    centre = seen.mean(axis=0)
    covariance = (seen - centre).T @ (seen - centre) / len(seen)
    return torch.from_numpy((embeddings - centre) @ leading_axes(covariance, DIMENSIONS)).float()


def simulation_loss(
    table: Tensor,
    parameters: Mapping[str, Tensor],
    batch: Batch,
    predicted: Tensor,
    r: Tensor,
    weight: float,
) -> Tensor:
    """Return CE(student, y^) + weight KL(r || r_student), mean over a batch (eq. 7).

    Args:
        table: what the student reads of each piece, (vocabulary, d).
        parameters: query, weight and bias of one student, see `read_bags`.
        batch: b texts of n tokens.
        predicted: y^, classes that the explained model gives, int64, (b,).
        r: its explanations, (b, n).
        weight: of the divergence.
    """
    content = content_mask(batch)
    logits, attention = read_bags(table[batch.input_ids], ~content[:, None], **parameters)
    divergence = r * (r.clamp_min(1e-12).log() - attention[:, 0].masked_fill(~content, 0.0))
    loss: Tensor = functional.cross_entropy(logits[0], predicted) + weight * divergence.sum(1).mean()
    return loss


class SimulatabilityLoss:
    """The loss of criterion sim: good explanations help a student to predict the classifier (IvRA 2.2.1).

    In each epoch a student that has learned nothing is shown the explanations of one half of its texts, in a pilot
    update that stays in the graph, and asked about the other half; the loss of its predictions trains the explanations.

    Args:
        classifier: the classifier, trained meanwhile.
        module: its attention module, trained meanwhile.
        texts: those that the student learns from and is asked about, two or more.
        generator: draws halves, batches and students.
    """

    def __init__(
        self,
        classifier: TransformerPredictor,
        module: AttentionModule,
        texts: Sequence[Encoding],
        generator: torch.Generator,
    ) -> None:
        self.classifier = classifier
        self.module = module
        self.texts = texts
        self.generator = generator
        embeddings: Any = classifier.model.get_input_embeddings()
        table = embeddings.weight.detach()
        pieces = [encoding.input_ids[position] for encoding in texts for position in encoding.positions]
        self.table = piece_components(table, torch.tensor(pieces)).to(classifier.device)
        self._batches: Iterator[tuple[list[Encoding], list[Encoding]]] = iter(())
        self._parameters: Parameters = {}

    def begin_epoch(self) -> None:
        """Begin with a new student, and draw anew which texts it is shown and asked about."""
        order = torch.randperm(len(self.texts), generator=self.generator).tolist()
        self._batches = zip(self._rounds(order[::2]), self._rounds(order[1::2]), strict=True)
        self._parameters = self._new_student()

    def __call__(self) -> Tensor:
        """Return the student's loss on one batch, after a pilot update on the explanations of another.

        The next call begins with a new student, as the metric's students do.
        """
        shown, asked = next(self._batches)
        lesson = self.explained(shown)
        questions = self.explained(asked)
        parameters = self._parameters
        # The steps (eq. 14) stay in the graph: what is then computed from their result has exact gradients with respect
        # to the explanations that the student was shown (eq. 15).
        for _ in range(PILOT_STEPS):
            loss = simulation_loss(self.table, parameters, *lesson, DIVERGENCE_WEIGHT)
            slopes = torch.autograd.grad(loss, list(parameters.values()), create_graph=True)
            moved = [value - STUDENT_RATE * slope for value, slope in zip(parameters.values(), slopes, strict=True)]
            parameters = dict(zip(parameters, moved, strict=True))
        self._parameters = self._new_student()
        return simulation_loss(self.table, parameters, *questions, ASKED_WEIGHT)

    def _new_student(self) -> Parameters:
        """Return the parameters of a student that has learned nothing, with a query drawn anew."""
        width = self.table.shape[1]
        classes = len(self.classifier.labels)
        query = torch.randn(1, width, generator=self.generator) / width**0.5
        parameters = {
            "query": query.to(self.table),
            "weight": self.table.new_zeros(1, width, classes),
            "bias": self.table.new_zeros(1, 1, classes),
        }
        return {name: value.requires_grad_() for name, value in parameters.items()}

    def explained(self, texts: Sequence[Encoding]) -> tuple[Batch, Tensor, Tensor]:
        """Return a batch of texts, the classes predicted and the explanations, with their graph."""
        batch = self.classifier.batch(texts)
        explained = explain_batch(self.classifier, self.module, batch)
        return batch, explained.logits.detach().argmax(-1), explained.r

    def _rounds(self, rows: Sequence[int]) -> Iterator[list[Encoding]]:
        """Yield batches of about equally many texts, of all lengths, round after round."""
        texts = [self.texts[row] for row in rows]
        lengths = [len(text) for text in texts]
        size = math.ceil(len(texts) / math.ceil(len(texts) / STUDENT_BATCH))
        while True:
            for batch in random_batches(lengths, size, self.generator):
                yield [texts[i] for i in batch]
