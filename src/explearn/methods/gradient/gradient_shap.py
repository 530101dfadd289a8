"""GradientSHAP."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from explearn.core.validation import Rounds, Seeded
from explearn.methods.base.explainer import About, Batch
from explearn.methods.gradient.embedded import (
    BaselineOptions,
    EmbeddedClassifier,
    EmbeddingExplainer,
    baseline_embeddings,
)
from explearn.predictors.encoding import text_seed


class GradientShap(EmbeddingExplainer):
    """Gradients at random points between an empty text and the text, averaged.

    GradientSHAP: mean over samples of (e_j - b_j) . d f / d e_j at b + a (e - b).

    e_j is the word embedding of sub-token j and b_j that of the baseline ([CLS], [SEP] and padding have their own in
    both), and a is uniform in [0, 1), drawn anew for each sample. Signed, and additive over pieces. Source: Lundberg
    and Lee (2017) for SHAP values, Erion et al. (2021) for the expectation; captum's GradientShap without noise, with
    the same draws.

    The expected scores sum to f(text) - f(baseline); `completeness_error` is the deviation of the samples from that.
    The draws depend only on the seed and the text.
    """

    about = About(
        name="gradient_shap",
        family="gradient",
        cost="one forward and backward pass a sample (25 samples)",
        needs={"gradients"},
        costly=True,
    )
    aggregation = "sum"
    signed = True
    passes = 25  # As in integrated_gradients: texts of a batch are close in length.

    class Options(BaselineOptions, Seeded):
        samples: Rounds = 25
        """Draws for each text."""

    def attribute(self, function: EmbeddedClassifier, batch: Batch) -> tuple[Tensor, Tensor]:
        options = self.options
        embeddings = function.embed()
        start = baseline_embeddings(function.classifier, batch, embeddings, options.baseline)
        with torch.no_grad():
            at_text, at_start = function(torch.cat([embeddings, start])).chunk(2)
        draws = []
        for encoding in batch.encodings:
            draws.append(np.random.RandomState(text_seed(options.seed, encoding)).uniform(size=options.samples))
        shares = torch.from_numpy(np.stack(draws, 1)).to(embeddings)[..., None, None]  # (samples, batch, 1, 1)
        gradient = torch.zeros_like(embeddings)
        for some in shares.split(max(1, function.classifier.max_tokens // batch.input_ids.numel())):
            points = (start + some * (embeddings - start)).flatten(0, 1).requires_grad_()
            with torch.enable_grad():
                (gradients,) = torch.autograd.grad(function(points).sum(), points)
            gradient += gradients.unflatten(0, some.shape[:2]).sum(0)
        scores = ((embeddings - start) * gradient / options.samples).sum(-1)
        return scores, (scores.sum(-1) - (at_text - at_start)).abs()
