"""Attention rollout: attention multiplied through the layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from explearn.lens.attention import Attention, layer_count, read_weights, reduced_attention
from explearn.methods.base.explainer import BatchExplainer, BatchScores, resolve_targets
from explearn.methods.info import About
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch


class Rollout(BatchExplainer):
    """Attention of all layers, residual connections included, multiplied up to the [CLS] token.

    Attention rollout (Abnar and Zuidema, 2020, section 3).

    B_l = rows of (mean_h A[l, h] + I) brought to sum 1; J = B_L ... B_1; the score of token j is J[CLS, j]. The row is
    carried from the top layer down as a vector, so no matrix is multiplied with a matrix. The class plays no part.
    """

    about = About(
        name="rollout",
        family="attention",
        cost="one forward pass",
        needs=frozenset({"attentions"}),
    )

    def check(self, classifier: Classifier) -> None:
        layer_count(classifier.model)

    def score_batch(self, classifier: Classifier, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        logits, means = reduced_attention(classifier, batch, Attention.head_mean)
        row = rollout_row(means, read_weights(classifier.model.config, batch))
        return BatchScores(row, logits, resolve_targets(logits, targets))


def rollout_row(head_means: Sequence[torch.Tensor], reads: torch.Tensor) -> torch.Tensor:
    """Row of the rollout of the token that the head reads, (batch, tokens).

    Args:
        head_means: mean over heads of each layer's attention, first layer first, (batch, queries, keys).
        reads: how much of each token the head reads, (batch, tokens).
    """
    row = reads.to(head_means[-1])
    for attention in reversed(head_means):
        # Rows of A sum to 1, so those of A + I sum to 2.
        row = (torch.einsum("bq,bqk->bk", row, attention) + row) / 2
    return row
