"""AttnLRP: relevance propagation with rules for attention and layer norms, as a changed backward pass."""

from __future__ import annotations

import torch

from explearn.lens.watch import check_differentiable, full_precision, gradients_of, watch
from explearn.methods.base.explainer import BatchExplainer, BatchScores, resolve_targets
from explearn.methods.info import About
from explearn.methods.relevance.rules import changed_backward
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch


class AttnLRP(BatchExplainer):
    """Relevance passed down with rules made for attention and layer norms, by a changed backward pass.

    AttnLRP: the target's logit passed down to the embeddings, by rules that a changed gradient carries out.

    Let g be the changed gradient of the logit in a value x; its relevance is R = x * g. Rules (`rules.ATTN_LRP`),
    outputs to inputs:

    * linear maps and residual sums: the plain gradient (epsilon rule with epsilon = 0);
    * activations f, in blocks and head: g_in = g_out f(x) / x, that is, R_in = R_out (identity rule);
    * layer norms: the plain gradient with the standard deviation held constant;
    * the products Q K^T and A V, and those of gated feed-forward layers: half the gradient to each operand (uniform
      rule);
    * softmax s = softmax(x): the plain gradient, R_in = x * (R_out - s sum(R_out)) (Taylor expansion at x).

    score_j = sum over features of e_j * g_j, with e the output of the embeddings, of which word, position and segment
    are parts; where a projection follows (ALBERT, small ELECTRA), before that. Signed, and additive over pieces.

    The scores of a text do not add up to its logit, for two reasons. Biases, of linear maps and of layer norms, keep
    their part of it. And softmax passes on sum(R_in) != sum(R_out): its expansion leaves the rest in a constant. All
    other rules conserve relevance.

    Source: Achtibat et al. (2024, section 3).
    """

    reads_weights = True
    about = About(
        name="attn_lrp",
        family="relevance",
        cost="one forward and one backward pass",
        needs=frozenset({"gradients"}),
    )
    aggregation = "sum"
    signed = True

    def check(self, classifier: Classifier) -> None:
        check_differentiable(classifier)

    @torch.enable_grad()
    def score_batch(self, classifier: Classifier, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        with classifier.autocast(), changed_backward(classifier.model):
            run = watch(classifier, batch)
        logits = full_precision(run.logits)
        targets = resolve_targets(logits, targets)
        (gradient,) = gradients_of(run.logits, targets, [run.embedded])
        return BatchScores((gradient * full_precision(run.embedded)).sum(-1), logits, targets)
