"""The three terms of AML's loss, text by text: section 3.1, eq. 4 to 7."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from explearn.lens.gradients import content_mask
from explearn.lens.words import replaced_words
from explearn.methods.aml.left_out import left_out_logits
from explearn.methods.aml.masks import Masking, gates
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch


@dataclass(frozen=True, slots=True)
class Weights:
    """lambda_p, lambda_a, lambda_inv of eq. 4, each in [0, 1]; a term of weight 0 is left out, its passes too."""

    prediction: float
    size: float
    inverse: float


@dataclass(frozen=True, slots=True)
class Terms:
    """Each text's terms, (b,), 0 where left out.

    prediction: L_p, cross-entropy between y and the prediction on the masked text (eq. 5).
    size: L_a, mean over the text's sub-tokens of -log(1 - a) (eq. 7).
    inverse: L_inv, -log(1 - p), p the target's probability on the inversely masked text (eq. 6).
    """

    prediction: torch.Tensor
    size: torch.Tensor
    inverse: torch.Tensor

    def total(self, weights: Weights) -> torch.Tensor:
        """Eq. 4, (b,)."""
        return weights.prediction * self.prediction + weights.size * self.size + weights.inverse * self.inverse


def loss_terms(
    classifier: Classifier,
    batch: Batch,
    scores: torch.Tensor,
    predictions: torch.Tensor,
    masking: Masking,
    weights: Weights,
    draw: int = 0,
) -> Terms:
    """AML's loss of some attributions, with a graph from the frozen classifier back to them.

    Both masked texts go through the classifier in one batch.

    Args:
        scores: logits of the attributions, (b, n); a = sigmoid(scores).
        predictions: y, (b, C), rows on the simplex. Its largest entry is the target.
        draw: see `Masking.stand_in`.
    """
    attributions = scores.sigmoid()
    wanted = []
    if weights.prediction:
        wanted.append(attributions)
    if weights.inverse:
        wanted.append(1 - attributions)
    kept = [gates(batch, masking.gate(mask)) for mask in wanted]
    zero = torch.zeros(len(scores), device=scores.device)
    found = classifier.softmax_logits(_masked_logits(classifier, batch, kept, masking, draw)) if kept else None
    logits = iter(() if found is None else found.chunk(len(kept)))
    content = content_mask(batch)
    # -log(1 - sigmoid(s)) = softplus(s)
    size = torch.where(content, nn.functional.softplus(scores), 0.0).sum(1) / content.sum(1).clamp(min=1)
    return Terms(
        prediction=-(predictions * next(logits).log_softmax(-1)).sum(-1) if weights.prediction else zero,
        size=size if weights.size else zero,
        inverse=-_log_other(next(logits), predictions.argmax(-1)) if weights.inverse else zero,
    )


def _masked_logits(
    classifier: Classifier, batch: Batch, kept: list[torch.Tensor], masking: Masking, draw: int
) -> torch.Tensor:
    """Logits of the texts under each of some masks, (masks b, C)."""
    if masking.removes:
        return left_out_logits(classifier, batch, torch.cat(kept))
    table: Any = classifier.model.get_input_embeddings()
    with torch.no_grad():
        words = table(batch.input_ids)
    stand_in = masking.stand_in(classifier, batch, draw)
    texts = [gate[..., None] * words + (1 - gate[..., None]) * stand_in for gate in kept]
    return embedded_logits(classifier, batch, torch.cat(texts))


def _log_other(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """log(1 - p) of the targets, (b,), without rounding where p is almost 1."""
    own = nn.functional.one_hot(targets, logits.shape[-1]).bool()
    return logits.masked_fill(own, float("-inf")).logsumexp(-1) - logits.logsumexp(-1)


def embedded_logits(classifier: Classifier, batch: Batch, embeddings: torch.Tensor) -> torch.Tensor:
    """Logits, (rows, C), at least float32, of texts whose word embeddings are given.

    Positions, segments and padding are those of the batch; its ids still go in, for RoBERTa counts positions by them.

    Args:
        embeddings: (rows, n, e); row r is a variant of text r modulo b.
    """
    copies = len(embeddings) // len(batch)
    inputs = {name: value.repeat(copies, 1) for name, value in batch.model_inputs().items()}
    table: Any = classifier.model.get_input_embeddings()
    # A model that is kept in half precision reads no other.
    embeddings = embeddings.to(table.weight.dtype)
    with replaced_words(classifier.model, inputs["input_ids"], embeddings), classifier.autocast():
        logits: torch.Tensor = classifier.model(**inputs).logits
    return logits if logits.dtype == torch.float64 else logits.float()
