"""AttnLRP: relevance propagation with rules for attention and layer norms, as a modified backward pass.

A rule replaces the gradient of a module or function. The tables below map kinds of modules and functions to rules, and
autograd applies them in whatever order a model runs its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from explearn.core.compute import at_least_float32
from explearn.lens.hooks import Hooks
from explearn.lens.listed_head import check_weights
from explearn.lens.watch import check_differentiable, full_precision, gradients_of, watch
from explearn.methods.base.explainer import About, Batch, BatchExplainer, BatchScores, resolve_targets
from explearn.predictors.transformer import TransformerPredictor

Passed = tuple[Tensor | None, Tensor | None]
"""Gradients that a rule passes on: at the part's output, to continue by its own derivative, and at the part's input."""


def identity_rule(gradient: Tensor, output: Tensor, x: Tensor, _part: object) -> Passed:
    """Return g f(x) / x, which passes relevance unchanged; 0 at x = 0, where f(0) = 0."""
    # Only 0 / 0 becomes 0: one pass over the tensor instead of three with a mask.
    return None, gradient * (output / x).nan_to_num_(nan=0.0, posinf=torch.inf, neginf=-torch.inf)


def uniform_rule(gradient: Tensor, _output: Tensor, _x: Tensor, _part: object) -> Passed:
    """Pass half the gradient to each operand of a product."""
    return gradient / 2, None


def norm_rule(gradient: Tensor, output: Tensor, x: Tensor, norm: Any) -> Passed:
    """Pass the gradient of a norm with its deviation held constant."""
    if not isinstance(norm, nn.LayerNorm):
        # A norm without a mean multiplies each feature by output / input.
        return identity_rule(gradient, output, x, norm)
    shape = list(norm.normalized_shape)
    _, _, inverse = torch.native_layer_norm(at_least_float32(x), shape, None, None, norm.eps)
    scaled = at_least_float32(gradient) * norm.weight
    return None, ((scaled - scaled.mean(-1, keepdim=True)) * inverse).to(x.dtype)


def is_norm(module: nn.Module) -> bool:
    """Return whether a module is a layer norm, or an RMSNorm, for which each model has its own class."""
    return isinstance(module, nn.LayerNorm) or type(module).__name__.endswith("RMSNorm")


@cache
def _activations() -> tuple[type, ...]:
    from transformers.activations import ACT2CLS

    entries: dict[str, Any] = ACT2CLS
    classes = []
    for name, entry in entries.items():
        if name != "linear":
            classes.append(entry[0] if isinstance(entry, tuple) else entry)
    return tuple(classes)


def is_activation(module: nn.Module) -> bool:
    """Return whether a module is one of the activations in transformers."""
    return isinstance(module, _activations())


Rule = Callable[[Tensor, Tensor, Tensor, Any], Passed]
"""(gradient at the output, output, input, module or None) -> the gradients passed on."""


# A module or function without a rule keeps its gradient (Achtibat et al. 2024, section 3).
MODULE_RULES: Mapping[Callable[[nn.Module], bool], Rule] = {is_norm: norm_rule, is_activation: identity_rule}
_FUNCTIONS = (torch.tanh, Tensor.tanh, nn.functional.relu, nn.functional.gelu, nn.functional.silu)
FUNCTION_RULES: Mapping[Any, Rule] = dict.fromkeys(_FUNCTIONS, identity_rule)
_PRODUCTS = (torch.matmul, Tensor.matmul, torch.bmm, torch.mul, Tensor.mul)
PRODUCT_RULES: Mapping[Any, Rule] = dict.fromkeys(_PRODUCTS, uniform_rule)
"""Rules for functions of two operands, used where both operands depend on the input."""


class ChangedBackward(TorchFunctionMode):
    """A mode in which backward passes follow AttnLRP's rules; `changed` switches between them and plain gradients.

    It may be switched between two backward passes through the same graph.
    """

    changed = True

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        rule = FUNCTION_RULES.get(func)
        if rule is None and all(isinstance(x, Tensor) and x.requires_grad for x in args[:2]):
            rule = PRODUCT_RULES.get(func)
        if rule is None:
            return output
        return self.ruled(rule, output, args[0])

    def ruled(self, rule: Rule, output: Tensor, x: Tensor, part: nn.Module | None = None) -> Tensor:
        """Return a part's output, whose gradient will follow a rule."""
        if not output.requires_grad:
            return output
        ruled: Tensor = _Ruled.apply(output, x, part, rule, self)  # type: ignore[no-untyped-call]
        return ruled


class _Ruled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, output: Tensor, x: Tensor, part: Any, rule: Rule, mode: Any) -> Tensor:
        ctx.save_for_backward(output, x)
        ctx.part = part
        ctx.rule = rule
        ctx.mode = mode
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        at_output, at_input = gradients[0], None
        if ctx.mode.changed:
            at_output, at_input = ctx.rule(gradients[0], *ctx.saved_tensors, ctx.part)
        return at_output, at_input, None, None, None


@contextmanager
def changed_backward(model: nn.Module) -> Iterator[ChangedBackward]:
    """Apply AttnLRP's rules to backward passes through the graph of forward passes inside the block, in this thread."""
    mode = ChangedBackward()

    def apply(rule: Rule, module: nn.Module, args: tuple[Any, ...], _kwargs: object, output: Tensor) -> Any:
        return mode.ruled(rule, output, args[0], module)

    with Hooks() as hooks, mode:
        for module in model.modules():
            for applies, rule in MODULE_RULES.items():
                if applies(module):
                    hooks.after(module, partial(apply, rule))
        yield mode


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
        with classifier.autocast(), changed_backward(classifier.model):
            run = watch(classifier, batch)
        logits = full_precision(run.logits)
        targets = resolve_targets(logits, targets)
        (gradient,) = gradients_of(run.logits, targets, [run.embedded])
        return BatchScores((gradient * full_precision(run.embedded)).sum(-1), logits, targets)
