"""Integrated gradients, computed by captum."""

from __future__ import annotations

import math
from typing import Literal, Self

import torch
from captum import attr
from pydantic import model_validator

from explearn.core.validation import Rounds, Section
from explearn.lens.words import check_words
from explearn.methods.base.explainer import BatchExplainer, BatchScores
from explearn.methods.base.outputs import Output
from explearn.methods.gradient.embedded import EmbeddedClassifier
from explearn.methods.gradient.references import Baseline, baseline_embeddings
from explearn.methods.info import About
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch

Quadrature = Literal["gausslegendre", "riemann_left", "riemann_right", "riemann_middle", "riemann_trapezoid"]
"""captum's rules for the integral. Its trapezoid has weights that sum to 1 - 1/steps, so its scores are too small by
that part."""


class IntegratedGradients(BatchExplainer):
    """Gradients added up along the straight path from an empty text to the text.

    Integrated gradients: (e_j - b_j) . integral over a in [0, 1] of d f / d e_j at b + a (e - b).

    e_j is the word embedding of sub-token j and b_j that of the baseline; [CLS], [SEP] and padding have the same in
    both and score 0. Signed, and additive over pieces: the scores sum to f(text) - f(baseline) up to the error of the
    quadrature, which `completeness_error` reports. Source: Sundararajan et al. (2017), eq. 1 and 3; computed by
    captum's IntegratedGradients on word embeddings, which is its LayerIntegratedGradients on the embedding layer, but
    takes a zero embedding as well.
    """

    about = About(
        name="integrated_gradients",
        family="gradient",
        cost="one forward and backward pass a step (50 steps)",
        needs=frozenset({"gradients"}),
        costly=True,
    )
    aggregation = "sum"
    signed = True
    # Batches of few texts, many steps of them at once, hold as many sub-tokens as batches of many texts and one step,
    # but their texts are closer in length: less is padded. captum splits the steps to fit the budget.
    passes = 25

    class Options(Section):
        steps: Rounds = 50
        """Points of the path."""
        baseline: Baseline = "pad"
        """Where the path starts: at the embedding of the `pad` or `mask` token, or at `zero`."""
        output: Output = "logit"
        """What is explained: the target's `logit`, `probability` or `log_probability`."""
        quadrature: Quadrature = "gausslegendre"
        """Rule for the integral, one of captum's."""

        @model_validator(mode="after")
        def _enough_steps(self) -> Self:
            if self.steps < 2 and self.quadrature != "gausslegendre":
                raise ValueError(f"steps: got {self.steps}; expected at least 2 for {self.quadrature}")
            return self

    def check(self, classifier: Classifier) -> None:
        check_words(classifier)

    def score_batch(self, classifier: Classifier, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        function = EmbeddedClassifier(classifier, batch.model_inputs(), targets, self.options.output)
        embeddings = function.embed()
        start = baseline_embeddings(classifier, batch, embeddings, self.options.baseline)
        with torch.no_grad():
            at_text, at_start = function(torch.cat([embeddings, start])).chunk(2)
        # Steps at once that fit the budget, evened out: 25 and 25 rather than 46 and 4.
        most = max(1, classifier.max_tokens // embeddings[..., 0].numel())
        at_once = math.ceil(self.options.steps / math.ceil(self.options.steps / most))
        products = attr.IntegratedGradients(function).attribute(
            embeddings,
            start,
            n_steps=self.options.steps,
            method=self.options.quadrature,
            internal_batch_size=len(batch) * at_once,
        )
        scores = products.sum(-1)
        error = (scores.sum(-1) - (at_text - at_start)).abs()
        return BatchScores(scores, function.logits, function.targets, error)
