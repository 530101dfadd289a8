"""AttnLRP: relevance propagation with rules for attention and layer norms, as a modified backward pass."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from explearn.lens.listed_head import check_weights
from explearn.lens.watch import check_differentiable, full_precision, gradients_of, watch
from explearn.methods.base.explainer import About, Batch, BatchExplainer, BatchScores, resolve_targets
from explearn.methods.relevance.backward import (
    ACTIVATIONS,
    PRODUCTS,
    BackwardRules,
    changed_backward,
    identity_rule,
    is_activation,
    is_norm,
    norm_rule,
    uniform_rule,
)
from explearn.predictors.transformer import TransformerPredictor

RULES = BackwardRules(
    modules={is_norm: norm_rule, is_activation: identity_rule},
    functions=dict.fromkeys(ACTIVATIONS, identity_rule),
    products=dict.fromkeys(PRODUCTS, uniform_rule),
)
"""Achtibat et al. (2024), section 3."""


class AttnLRP(BatchExplainer):
    """Relevance passed down with rules made for attention and layer norms, by a changed backward pass.

    AttnLRP: the target's logit passed down to the embeddings, by rules that a modified gradient applies.

    Let g be the modified gradient of the logit at a value x; its relevance is R = x * g. Rules, outputs to
    inputs:

    * linear maps and residual sums: the plain gradient (epsilon rule with epsilon = 0);
    * activations f, in blocks and head: g_in = g_out f(x) / x, that is, R_in = R_out (identity rule);
    * layer norms: the plain gradient with the standard deviation held constant;
    * the products Q K^T and A V, and those of gated feed-forward layers: half the gradient to each operand (uniform
      rule);
    * softmax s = softmax(x): the plain gradient, R_in = x * (R_out - s sum(R_out)) (Taylor expansion at x).

    score_j = sum over features of e_j * g_j, with e the output of the embeddings, the sum of word, position and segment
    (before the projection of ALBERT and small ELECTRA). Signed, and additive over pieces.

    The scores of a text do not add up to its logit, for two reasons. Biases of linear maps and of layer norms keep
    their share of it. And softmax passes on sum(R_in) != sum(R_out): the constant term of its expansion keeps the
    rest. All other rules conserve relevance.

    Source: Achtibat et al. (2024, section 3).
    """

    reads_weights = True
    about = About(
        name="attn_lrp",
        family="relevance",
        cost="one forward and one backward pass",
        needs={"gradients"},
    )
    aggregation = "sum"
    signed = True
    output = "logit"
    passes = 2  # What the forward pass computes is held for the backward pass.

    def check(self, classifier: TransformerPredictor) -> None:
        check_differentiable(classifier)
        check_weights(classifier, nn.LayerNorm)

    @torch.enable_grad()
    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        with classifier.autocast(), changed_backward(classifier.model, RULES):
            run = watch(classifier, batch)
        logits = full_precision(run.logits)
        targets = resolve_targets(logits, targets)
        (gradient,) = gradients_of(run.logits, targets, [run.embedded])
        return BatchScores((gradient * full_precision(run.embedded)).sum(-1), logits, targets)
