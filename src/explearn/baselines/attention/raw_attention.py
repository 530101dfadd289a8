"""Raw attention: what [CLS] attends to in one layer."""

from __future__ import annotations

import torch

from explearn.explainer import BatchScores, Explainer, resolve_targets
from explearn.models.capture import capture_attention, cls_row_mean, resolve_layer
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
