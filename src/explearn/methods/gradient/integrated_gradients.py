"""Integrated gradients of a whole text, or of one word at a time, computed by captum."""

from __future__ import annotations

import torch
from captum import attr
from torch import Tensor

from explearn.core.validation import Rounds
from explearn.methods.base.explainer import About, Batch
from explearn.methods.gradient.embedded import (
    Baseline,
    BaselineOptions,
    EmbeddedClassifier,
    EmbeddingExplainer,
    OutputOptions,
    baseline_embeddings,
    baseline_vector,
)
from explearn.text.alignment import NO_WORD


class IntegratedGradients(EmbeddingExplainer):
    """Gradients added up along the straight path from an empty text to the text.

    Integrated gradients: (e_j - b_j) . integral over a in [0, 1] of d f / d e_j at b + a (e - b).

    e_j is the word embedding of sub-token j and b_j that of the baseline; [CLS], [SEP] and padding have the same in
    both and score 0. Signed, and additive over pieces: the scores sum to f(text) - f(baseline) up to the error of the
    quadrature, which `completeness_error` reports. Source: Sundararajan et al. (2017), eq. 1 and 3; computed by
    captum's IntegratedGradients on word embeddings, which equals its LayerIntegratedGradients on the embedding layer
    but also accepts a zero embedding.
    """

    about = About(
        name="integrated_gradients",
        family="gradient",
        cost="one forward and backward pass a step (50 steps)",
        needs={"gradients"},
        costly=True,
    )
    aggregation = "sum"
    signed = True
    # A batch of few texts with many steps at once holds as many sub-tokens as one of many texts with one step, but its
    # texts are closer in length, so there is less padding. captum splits the steps to fit the budget.
    passes = 25

    class Options(BaselineOptions):
        steps: Rounds = 50
        """Points of the path, by Gauss-Legendre quadrature; the path starts at the baseline."""

    def attribute(self, function: EmbeddedClassifier, batch: Batch) -> tuple[Tensor, Tensor]:
        embeddings = function.embed()
        start = baseline_embeddings(function.classifier, batch, embeddings, self.options.baseline)
        with torch.no_grad():
            at_text, at_start = function(torch.cat([embeddings, start])).chunk(2)
        products = attr.IntegratedGradients(function).attribute(
            embeddings,
            start,
            n_steps=self.options.steps,
            internal_batch_size=max(len(batch), function.classifier.max_tokens // embeddings.shape[1]),
        )
        scores = products.sum(-1)
        return scores, (scores.sum(-1) - (at_text - at_start)).abs()


class SequentialIG(EmbeddingExplainer):
    """Integrated gradients for one word at a time, the other words left in place.

    Sequential integrated gradients (SIG): integrated gradients of one word at a time, the others left in place.

    The path of a word leads to the text from the text in which all pieces of that word have the baseline's embedding;
    its pieces score (e_j - b) . integral of d f / d e_j along the path. Positions of no word score 0.
    Source: Enguehard (2023), with words in place of tokens; computed by captum's IntegratedGradients.

    Signed. A word's pieces sum to f(text) - f(text without the word), so their sum is the word's score; the sum over a
    text has no meaning. `completeness_error` is the largest error of a word's own sum.
    """

    about = About(
        name="sequential_ig",
        family="gradient",
        cost="one forward and backward pass a step (10 steps) and word",
        needs={"gradients"},
        costly=True,
    )
    aggregation = "sum"
    signed = True
    # A batch has one row per word, processed within the budget: small batches need less padding.
    passes = 16

    class Options(OutputOptions):
        steps: Rounds = 10
        """Points of each path, by Gauss-Legendre quadrature."""
        baseline: Baseline = "mask"
        """The replacement for a missing word: the embedding of the `mask` or `pad` token, or `zero`."""

    def attribute(self, function: EmbeddedClassifier, batch: Batch) -> tuple[Tensor, Tensor]:
        classifier = function.classifier
        embeddings = function.embed()
        with torch.no_grad():
            at_text = function(embeddings)
        removed = baseline_vector(classifier, self.options.baseline)
        scores = torch.zeros_like(embeddings[..., 0])
        error = torch.zeros_like(at_text)
        owners = batch.word_ids()
        # One row for each word that has pieces: the text's number and the word's.
        pairs = []
        for number, encoding in enumerate(batch.encodings):
            pairs += [(number, word) for word in sorted(set(encoding.word_ids) - {NO_WORD})]
        size = max(1, classifier.max_tokens // embeddings.shape[1])
        for first in range(0, len(pairs), size):
            texts, words = torch.tensor(pairs[first : first + size], device=embeddings.device).unbind(1)
            inputs = {name: values[texts] for name, values in function.inputs.items()}
            path = EmbeddedClassifier(classifier, inputs, function.targets[texts], self.options.output)
            end = embeddings[texts]
            start = torch.where((owners[texts] == words[:, None])[..., None], removed, end)
            with torch.no_grad():
                expected = at_text[texts] - path(start)
            method = attr.IntegratedGradients(path)
            products = method.attribute(end, start, n_steps=self.options.steps, internal_batch_size=size).sum(-1)
            # A row is 0 but at its own word's pieces.
            scores.index_add_(0, texts, products)
            error.scatter_reduce_(0, texts, (products.sum(-1) - expected).abs(), "amax")
        return scores, error
