"""AttnLRP: relevance propagation with rules for attention and layer norms, as a changed backward pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any, cast

import torch
from torch import nn

from explearn.lens.anatomy import Activation, Anatomy, Block, dissect, merge_heads, split_heads
from explearn.lens.gradients import check_differentiable
from explearn.lens.patterns import Call, at_least_float32, masked_softmax
from explearn.lens.threads import here_only
from explearn.lens.watched import hooked, watch
from explearn.methods.base.explainer import BatchExplainer, BatchScores, resolve_targets
from explearn.methods.info import About
from explearn.model.architectures import architecture, blocks_in_order, unusual_build
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch


class AttnLRP(BatchExplainer):
    """Relevance passed down with rules made for attention and layer norms, by a changed backward pass.

    AttnLRP: the target's logit passed down to the embeddings, by rules that a changed gradient carries out.

    Let g be the changed gradient of the logit in a value x; its relevance is R = x * g. Rules, outputs to inputs:

    * linear maps and residual sums: the plain gradient (epsilon rule with epsilon = 0);
    * activations f, in blocks and head: g_in = g_out f(x) / x, that is, R_in = R_out (identity rule);
    * layer norms: the plain gradient with the standard deviation held constant;
    * the products Q K^T and A V: half the gradient to each operand (uniform rule);
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
        with classifier.autocast():
            if architecture(classifier.model.config).parts is None:
                embedded, logits = attn_lrp_watched(classifier, batch)
            else:
                anatomy = dissect(classifier.model)
                embedded = replace(anatomy, projection=None).embed(batch).detach().requires_grad_()
                logits = attn_lrp_forward(anatomy, embedded, batch.attention_mask.bool())
        logits = logits if logits.dtype == torch.float64 else logits.float()
        targets = resolve_targets(logits.detach(), targets)
        (gradient,) = torch.autograd.grad(logits.gather(-1, targets[:, None]).sum(), embedded)
        return BatchScores((gradient * embedded.detach()).sum(-1), logits.detach(), targets)


def attn_lrp_forward(anatomy: Anatomy, embedded: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The classifier's logits, (batch, C), whose gradients follow the rules of AttnLRP.

    Args:
        embedded: output of the embeddings, before a projection, (batch, tokens, e).
        mask: bool, (batch, tokens), False at padding.
    """
    hidden = embedded if anatomy.projection is None else anatomy.projection(embedded)
    for block in anatomy.blocks:
        hidden = _block(block, hidden, mask)
    head = anatomy.head
    logits: torch.Tensor = head.classifier(_activate(head.dense(hidden[:, 0]), head.activation))
    return logits


def _block(block: Block, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    query, key, value = (split_heads(f(hidden), block.heads) for f in (block.query, block.key, block.value))
    scale = query.shape[-1] ** -0.5 if block.scale is None else block.scale
    # What is added for positions is linear in queries and keys, or constant: the plain gradient.
    scores = block.biased(_halve_gradient(query @ key.transpose(-1, -2)) * scale, query, key)
    attention = scores.masked_fill(~mask[:, None, None], float("-inf")).softmax(-1)
    context = merge_heads(_halve_gradient(attention @ value))
    middle = _normalise(block.attention_norm, block.output(context) + hidden)
    activated = _activate(block.expand(middle), block.activation)
    return _normalise(block.norm, block.contract(activated) + middle)


def attn_lrp_watched(classifier: Classifier, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """The embeddings, (b, n, d), as the first block gets them, and logits (b, C) whose gradients follow the rules.

    The forward pass is the model's own, of which hooks change the backward pass alone: at its norms, its activations,
    and the products of gated feed-forward layers, which are products as those of attention are.
    """
    model: Any = classifier.model
    rules = architecture(model.config).rules
    assert rules is not None
    with unusual_build(model.config):
        activations = [attrgetter(rules.activation)(block) for block in blocks_in_order(model.base_model)]
        gated = [attrgetter(rules.gated)(b) for b in blocks_in_order(model.base_model)] if rules.gated else []
        if rules.head_activation is not None:
            activations.append(attrgetter(rules.head_activation)(model))
    norms = [module for module in model.modules() if is_norm(module)]
    handles = [m.register_forward_hook(here_only(_norm_rule)) for m in norms]
    handles += [m.register_forward_hook(here_only(_activation_rule)) for m in activations]
    handles += [m.register_forward_pre_hook(here_only(_product_rule)) for m in gated]
    with hooked(handles):
        found = watch(classifier, batch, attend=_attend)
    assert found.logits is not None
    return found.inputs[0], found.logits


def _attend(call: Call) -> torch.Tensor:
    """Attention with the uniform rule at both of its products, (b, h, n, d)."""
    assert call.query is not None and call.key is not None and call.value is not None
    scores = at_least_float32(_halve_gradient(call.query @ call.key.transpose(-1, -2)))
    return _halve_gradient(masked_softmax(scores, call.mask).to(call.value.dtype) @ call.value)


def is_norm(module: nn.Module) -> bool:
    """Whether it is a layer norm, or one without a mean (RMSNorm), of which each model has a class of its own."""
    return isinstance(module, nn.LayerNorm) or type(module).__name__.endswith("RMSNorm")


def _norm_rule(module: nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
    if isinstance(module, nn.LayerNorm):
        return _normalise(module, args[0]).to(output.dtype)
    # Without a mean, a norm whose deviation is constant multiplies each feature by output / input.
    return _activate(args[0], lambda _: output.detach())


def _activation_rule(_module: nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
    return _activate(args[0], lambda _: output.detach())


def _product_rule(_module: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    return (_halve_gradient(args[0]),)


def _normalise(norm: nn.LayerNorm, hidden: torch.Tensor) -> torch.Tensor:
    """Layer norm, with the standard deviation held constant in the backward pass."""
    hidden = hidden if hidden.dtype == torch.float64 else hidden.float()
    variance = hidden.detach().var(-1, correction=0, keepdim=True)
    centred = hidden - hidden.mean(-1, keepdim=True)
    scaled = centred * (variance + norm.eps).rsqrt() * norm.weight
    # ModernBERT's norms have no bias.
    return scaled if norm.bias is None else scaled + norm.bias


class _HalvedGradient(torch.autograd.Function):
    """The identity, which passes on half the gradient: what one of a product's two operands gets."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0] / 2


class _IdentityRule(torch.autograd.Function):
    """An activation whose relevance passes unchanged: gradient f(x) / x, and 0 at x = 0, where f(0) = 0."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, activation: Activation) -> torch.Tensor:
        value = activation(x)
        ctx.save_for_backward(x, value)
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        x, value = ctx.saved_tensors
        return gradients[0] * (value / x).masked_fill(x == 0, 0), None


_halve_gradient = cast(Callable[[torch.Tensor], torch.Tensor], _HalvedGradient.apply)
_activate = cast(Callable[[torch.Tensor, Activation], torch.Tensor], _IdentityRule.apply)
