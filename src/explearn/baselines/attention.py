"""Attention weights read off as explanations, without gradients."""

from __future__ import annotations

import torch

from explearn.explainer import BatchScores, Explainer, resolve_targets
from explearn.models.capture import capture_attention, cls_row_mean, head_mean, layer_count, resolve_layer
from explearn.models.classifier import Classifier
from explearn.models.encoding import Batch


class RawAttention(Explainer):
    """Attention from [CLS] to each token in one layer, averaged over heads: mean_h A[l, h, CLS, j].

    The class plays no part. Source: Jain and Wallace (2019); as a baseline, ExpNet section 4.3.

    Args:
        layer: layer, counted from 0, or from the end when negative.
    """

    def __init__(self, layer: int = -1) -> None:
        self.layer = layer

    def check(self, classifier: Classifier) -> None:
        resolve_layer(classifier.model, self.layer)

    @torch.inference_mode()
    def score_batch(self, classifier: Classifier, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        layer = resolve_layer(classifier.model, self.layer)
        with capture_attention(classifier.model, cls_row_mean, [layer]) as captured, classifier.autocast():
            logits = classifier.model(**batch.model_inputs()).logits.float()
        return BatchScores(captured.of(layer), logits, resolve_targets(logits, targets))


class Rollout(Explainer):
    """Attention rollout (Abnar and Zuidema, 2020, section 3).

    B_l = rows of (mean_h A[l, h] + I) brought to sum 1; J = B_L ... B_1; the score of token j is J[CLS, j]. The row is
    carried from the top layer down as a vector, so no matrix is multiplied with a matrix. The class plays no part.
    """

    def check(self, classifier: Classifier) -> None:
        layer_count(classifier.model)

    @torch.inference_mode()
    def score_batch(self, classifier: Classifier, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        with capture_attention(classifier.model, head_mean) as captured, classifier.autocast():
            logits = classifier.model(**batch.model_inputs()).logits.float()
        row: torch.Tensor | None = None
        for layer in reversed(range(layer_count(classifier.model))):
            attention = captured.of(layer)
            if row is None:
                row = torch.zeros_like(attention[:, 0])
                row[:, 0] = 1.0
            # Rows of A sum to 1, so those of A + I sum to 2.
            row = (torch.einsum("bq,bqk->bk", row, attention) + row) / 2
        assert row is not None
        return BatchScores(row, logits, resolve_targets(logits, targets))
