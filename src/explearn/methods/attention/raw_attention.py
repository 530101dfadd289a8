"""Raw attention: what [CLS] attends to in one layer, or in all of them."""

from __future__ import annotations

import torch

from explearn.core.validation import LayerIndex, Section
from explearn.lens.attention import Attention, layer_count, reduced_attention, resolve_layer
from explearn.methods.base.explainer import BatchExplainer, BatchScores, resolve_targets
from explearn.methods.info import About
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch


class RawAttention(BatchExplainer):
    """The last layer's attention from the [CLS] token, averaged over heads.

    Attention from [CLS] to each token in one layer, averaged over heads: mean_h A[l, h, CLS, j].

    The class plays no part. Source: Jain and Wallace (2019); as a baseline, ExpNet section 4.3.
    """

    about = About(
        name="raw_attention",
        family="attention",
        cost="one forward pass",
        needs=frozenset({"attentions"}),
    )

    class Options(Section):
        layer: LayerIndex = -1
        """Layer, counted from 0, or from the end when negative."""

    def check(self, classifier: Classifier) -> None:
        resolve_layer(classifier.model, self.options.layer)

    def score_batch(self, classifier: Classifier, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        layer = resolve_layer(classifier.model, self.options.layer)
        logits, (row,) = reduced_attention(classifier, batch, Attention.row, [layer])
        return BatchScores(row.mean(-1), logits, resolve_targets(logits, targets))


class AttentionMean(BatchExplainer):
    """Attention from the [CLS] token, averaged over heads and all layers.

    Attention from [CLS] to each token, averaged over heads and layers: mean_l mean_h A[l, h, CLS, j].

    The class plays no part. Only the row of [CLS] is computed in each layer. Source: as a baseline, IvRA section 3.
    """

    about = About(
        name="attention_mean",
        family="attention",
        cost="one forward pass",
        needs=frozenset({"attentions"}),
    )

    def check(self, classifier: Classifier) -> None:
        layer_count(classifier.model)

    def score_batch(self, classifier: Classifier, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        logits, rows = reduced_attention(classifier, batch, Attention.row)
        return BatchScores(torch.stack(rows).mean((0, -1)), logits, resolve_targets(logits, targets))
