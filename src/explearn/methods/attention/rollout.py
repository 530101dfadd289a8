"""Attention rollout: attention multiplied through the layers."""

from __future__ import annotations

import torch

from explearn.core.method_info import About
from explearn.introspection.capture import capture_attention, head_mean, layer_count, read_weights
from explearn.methods.base.explainer import BatchExplainer, BatchScores, resolve_targets
from explearn.models.classifier import Classifier
from explearn.models.encoding import Batch


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

    @torch.inference_mode()
    def score_batch(self, classifier: Classifier, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        with capture_attention(classifier.model, head_mean) as captured, classifier.autocast():
            logits = classifier.model(**batch.model_inputs()).logits.float()
        row: torch.Tensor | None = None
        for layer in reversed(range(layer_count(classifier.model))):
            attention = captured.of(layer)
            if row is None:
                row = read_weights(classifier.model.config, batch).to(attention)
            # Rows of A sum to 1, so those of A + I sum to 2.
            row = (torch.einsum("bq,bqk->bk", row, attention) + row) / 2
        assert row is not None
        return BatchScores(row, logits, resolve_targets(logits, targets))
