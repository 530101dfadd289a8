"""GIM: gradients that say what attention would do without its self-repair."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from explearn.core.validation import Section
from explearn.lens.attention import SOFTMAX
from explearn.lens.listed_head import check_weights
from explearn.lens.watch import check_differentiable, full_precision, gradients_of, watch
from explearn.lens.words import check_words
from explearn.methods.base.explainer import About, Batch, BatchExplainer, BatchScores, resolve_targets
from explearn.methods.gradient.embedded import Baseline, baseline_embeddings
from explearn.methods.relevance.backward import (
    PRODUCTS,
    BackwardRules,
    Passed,
    changed_backward,
    is_activation,
    is_norm,
    norm_rule,
    plain_rule,
    uniform_rule,
)
from explearn.predictors.transformer import TransformerPredictor

TEMPERATURE = 2.0
"""The authors' default."""


def temperature_rule(gradient: Tensor, _output: Tensor, x: Tensor, _part: object) -> Passed:
    """Pass the gradient of a softmax at s = softmax(x / T): s (g - sum(s g)), without the factor 1 / T."""
    shares = (x.to(gradient.dtype) / TEMPERATURE).softmax(-1)
    return None, (shares * (gradient - (shares * gradient).sum(-1, keepdim=True))).to(x.dtype)


RULES = BackwardRules(
    modules={is_norm: norm_rule, is_activation: plain_rule},
    functions=dict.fromkeys(SOFTMAX, temperature_rule),
    products=dict.fromkeys(PRODUCTS, uniform_rule),
)


class GIM(BatchExplainer):
    """Input times gradient with softmax at a higher temperature, layer norms frozen and products shared.

    Gradient interaction modifications (Edin et al., 2025): score_j = sum over features of (e_j - b_j) * g_j, with e_j
    the word embedding of sub-token j, b_j the baseline's and g the modified gradient of the target's logit there.

    Where several keys bring the same, attention to one of them makes up for the loss of another: the gradient of a
    saturated softmax is near 0, though all of them together matter. Rules, outputs to inputs:

    * softmax s = softmax(x): g_in = s' (g_out - sum(s' g_out)) with s' = softmax(x / T), T = 2 (temperature-adjusted
      gradient), as in the authors' code without the factor 1 / T;
    * layer norms: the plain gradient with the standard deviation held constant;
    * the products Q K^T and A V, and those of gated feed-forward layers: half the gradient to each operand, so that
      values get a half, queries and keys a quarter each;
    * all else, activations among it: the plain gradient.

    Signed, and additive over pieces; the scores add up to no known number. [CLS], [SEP] and padding score 0.

    Not as in the paper: it explains the next token of language models, with a blank as the baseline's token.
    """

    reads_weights = True
    about = About(
        name="gim",
        family="relevance",
        cost="one forward and one backward pass",
        needs={"gradients"},
    )
    aggregation = "sum"
    signed = True
    output = "logit"
    passes = 2  # What the forward pass computes is held for the backward pass.

    class Options(Section):
        baseline: Baseline = "pad"
        """The baseline of the text: the embedding of the `pad` or `mask` token, or `zero`."""

    def check(self, classifier: TransformerPredictor) -> None:
        check_differentiable(classifier)
        check_words(classifier)
        check_weights(classifier, nn.LayerNorm)

    @torch.enable_grad()
    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        with classifier.autocast(), changed_backward(classifier.model, RULES):
            run = watch(classifier, batch)
        logits = full_precision(run.logits)
        targets = resolve_targets(logits, targets)
        (gradient,) = gradients_of(run.logits, targets, [run.words])
        words = full_precision(run.words)
        moved = words - baseline_embeddings(classifier, batch, words, self.options.baseline)
        return BatchScores((gradient * moved).sum(-1), logits, targets)
