"""Deep SHAP, computed by captum."""

from __future__ import annotations

import torch

from explearn.core.validation import Rounds, Seeded
from explearn.methods.gradient.deep_lift import check_rescale, rescale, view_for_rescale
from explearn.methods.gradient.embedded import (
    EmbeddedClassifier,
    EmbeddingExplainer,
    OutputOptions,
    reference_embeddings,
)
from explearn.methods.info import About
from explearn.predictors.encoding import Batch


class DeepShap(EmbeddingExplainer):
    """DeepLIFT's differences, averaged over several reference texts.

    Deep SHAP: DeepLIFT's scores, averaged over several references.

    The references of a text are, in this order, mask, pad and zero embeddings in the place of all its sub-tokens, then
    the text with its sub-tokens in random order; [CLS], [SEP] and padding keep their own embeddings. The order of the
    shuffled ones depends on the seed and the text alone. So a score says what a sub-token does compared with no text
    and with any other sub-token of its text in its place.

    Signed, and additive over pieces. Source: Lundberg and Lee (2017), section 4.2 (Deep SHAP); computed as captum's
    DeepLiftShap does, by captum's DeepLift on each reference and the mean, but reference by reference, so that texts
    share batches and memory does not grow with the references. `DeepLift` says what captum's DeepLift rescales.
    `completeness_error` is how far the scores' sum is from f(text) - mean of f(reference), and it is not small.
    """

    reads_weights = True
    about = About(
        name="deep_shap",
        family="perturbation",
        cost="one forward and backward pass a reference text, on twice the text",
        needs={"gradients"},
        costly=True,
    )
    aggregation = "sum"
    signed = True
    passes = 2

    class Options(OutputOptions, Seeded):
        references: Rounds = 8
        """Number of reference texts."""

    check = staticmethod(check_rescale)
    view = staticmethod(view_for_rescale)

    def attribute(self, function: EmbeddedClassifier, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        options = self.options
        classifier = function.classifier
        embeddings = function.embed()
        scores = torch.zeros_like(embeddings[..., 0])  # (batch, tokens)
        difference = torch.zeros_like(scores[:, 0])  # f(text) - mean of f(reference), (batch,)
        for reference in reference_embeddings(classifier, batch, embeddings, options.references, options.seed):
            scores += rescale(function, embeddings, reference) / options.references
            at_text, at_reference = function.values.chunk(2)
            difference += (at_text - at_reference) / options.references
        return scores, (scores.sum(-1) - difference).abs()
