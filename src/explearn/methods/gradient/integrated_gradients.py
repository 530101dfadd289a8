"""Integrated gradients, computed by captum."""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from captum import attr

from explearn.lens.words import check_words
from explearn.methods.base.explainer import BatchExplainer, BatchScores
from explearn.methods.base.options import check_choice, check_count
from explearn.methods.base.outputs import Output, check_output
from explearn.methods.gradient.embedded import EmbeddedClassifier
from explearn.methods.gradient.references import Baseline, baseline_embeddings, check_baseline
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

    Args:
        steps: points of the path.
        baseline: where the path starts: at the embedding of the `pad` or `mask` token, or at `zero`.
        output: what is explained: the target's `logit`, `probability` or `log_probability`.
        quadrature: rule for the integral, one of captum's.
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

    def __init__(
        self,
        steps: int = 50,
        baseline: Baseline = "pad",
        output: Output = "logit",
        quadrature: Quadrature = "gausslegendre",
    ) -> None:
        check_choice("quadrature", quadrature, get_args(Quadrature))
        check_count("steps", steps, 1 if quadrature == "gausslegendre" else 2)
        check_baseline(baseline)
        check_output(output)
        self.steps = steps
        self.baseline = baseline
        self.output = output
        self.quadrature = quadrature

    def check(self, classifier: Classifier) -> None:
        check_words(classifier)

    def score_batch(self, classifier: Classifier, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        function = EmbeddedClassifier(classifier, batch.model_inputs(), targets, self.output)
        embeddings = function.embed()
        start = baseline_embeddings(classifier, batch, embeddings, self.baseline)
        with torch.no_grad():
            at_text, at_start = function(torch.cat([embeddings, start])).chunk(2)
        # Steps at once that fit the budget, evened out: 25 and 25 rather than 46 and 4.
        most = max(1, classifier.max_tokens // embeddings[..., 0].numel())
        at_once = math.ceil(self.steps / math.ceil(self.steps / most))
        products = attr.IntegratedGradients(function).attribute(
            embeddings,
            start,
            n_steps=self.steps,
            method=self.quadrature,
            internal_batch_size=len(batch) * at_once,
        )
        scores = products.sum(-1)
        error = (scores.sum(-1) - (at_text - at_start)).abs()
        return BatchScores(scores, function.logits, function.targets, error)
