"""LibraGrad: gradients of a locally linear copy of the model, so that inputs and biases add up to the logit."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from explearn.lens.attention import SOFTMAX
from explearn.lens.hooks import Hooks
from explearn.lens.listed_head import check_weights
from explearn.lens.watch import check_differentiable, full_precision, gradients_of, watch
from explearn.methods.base.explainer import About, Batch, BatchExplainer, BatchScores, resolve_targets
from explearn.methods.relevance.backward import (
    ACTIVATIONS,
    ELEMENT_PRODUCTS,
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
    products=dict.fromkeys(ELEMENT_PRODUCTS, uniform_rule),
    constants=SOFTMAX,
)


class LibraGrad(BatchExplainer):
    """Layers' inputs and biases times gradients in which attention, gates and deviations are constant, added up.

    Libra FullGrad+ (Mehri et al., 2025, sections 2.1 and 3.5):

        score_j = sum_l x_l[j] . df / dx_l[j] + sum_b b . df / db[j]

    x_l: input of block l; b: a bias, of linear maps and layer norms from the first block to the head, with its gradient
    at token j; f: the target's logit. Rules, outputs to inputs:

    * attention softmax(Q K^T) V: the softmax is constant, the whole gradient goes to V;
    * activations f(x) = x * gate(x): the gate is constant, g_in = g_out f(x) / x;
    * layer norms: the standard deviation is constant;
    * products of gated feed-forward layers: half the gradient to each operand.

    So the model is FullGrad-complete (corollary 3): e . df / de at the output e of the embeddings and all biases' terms
    add up to f; `completeness_error` is the difference. FullGrad+ counts what passes several layers several times, and
    has no such sum. Signed, and additive over pieces.

    Not as in the paper: text in place of images; biases of the head belong to no token; tanh, in heads, is a gated
    activation, too.
    """

    reads_weights = True
    about = About(
        name="libragrad",
        family="relevance",
        cost="one forward and one backward pass",
        needs={"gradients"},
    )
    aggregation = "sum"
    signed = True
    output = "logit"
    passes = 4  # The outputs of all linear maps and their gradients are held.

    def check(self, classifier: TransformerPredictor) -> None:
        check_differentiable(classifier)
        check_weights(classifier, nn.Linear, nn.LayerNorm)

    @torch.enable_grad()
    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        model = classifier.model
        embeddings = getattr(model.base_model, "embeddings", None)
        before = set(embeddings.modules()) if isinstance(embeddings, nn.Module) else set()
        biased: list[tuple[Tensor, Tensor]] = []

        def on_output(bias: Tensor, _module: nn.Module, _args: object, _kwargs: object, output: Tensor) -> None:
            if output.requires_grad:
                biased.append((bias, output))

        with classifier.autocast(), changed_backward(model, RULES), Hooks() as hooks:
            for module in model.modules():
                bias = getattr(module, "bias", None)
                if isinstance(bias, Tensor) and module not in before:
                    hooks.after(module, partial(on_output, bias))
            run = watch(classifier, batch)
        logits = full_precision(run.logits)
        targets = resolve_targets(logits, targets)
        outputs = [output for _, output in biased]
        gradients = iter(gradients_of(run.logits, targets, [run.embedded, *run.inputs, *outputs]))
        scores = full_precision(run.embedded).new_zeros(batch.input_ids.shape)
        total = (full_precision(run.embedded) * next(gradients)).sum((1, 2))
        for state in run.inputs:
            scores += (full_precision(state) * next(gradients)).sum(-1).to(scores.device)
        for (bias, _), gradient in zip(biased, gradients, strict=True):
            terms = (bias * gradient).sum(-1).to(scores.device)
            total += terms.view(len(batch), -1).sum(1)
            if terms.shape == scores.shape:
                scores += terms
        error = (logits.gather(-1, targets[:, None]).squeeze(-1).to(total.device) - total).abs()
        return BatchScores(scores, logits, targets, error)
