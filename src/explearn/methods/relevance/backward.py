"""Modified backward passes: a rule replaces the gradient of a module or function.

The tables of `BackwardRules` map kinds of modules and functions to rules, and autograd applies them in whatever order a
model runs its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from explearn.core.compute import at_least_float32
from explearn.lens.hooks import Hooks

Passed = tuple[Tensor | None, Tensor | None]
"""Gradients that a rule passes on: at the part's output, to continue by its own derivative, and at the part's input."""


def identity_rule(gradient: Tensor, output: Tensor, x: Tensor, _part: object) -> Passed:
    """Return g f(x) / x, which passes relevance unchanged; 0 at x = 0, where f(0) = 0."""
    # Only 0 / 0 becomes 0: one pass over the tensor instead of three with a mask.
    return None, gradient * (output / x).nan_to_num_(nan=0.0, posinf=torch.inf, neginf=-torch.inf)


def plain_rule(gradient: Tensor, _output: Tensor, x: Tensor, part: Any) -> Passed:
    """Pass a module's own gradient, also where it multiplies inside, as some activations do."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return None, torch.autograd.grad(part(x), x, gradient)[0]


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


ACTIVATIONS = (torch.tanh, Tensor.tanh, nn.functional.relu, nn.functional.gelu, nn.functional.silu)
ELEMENT_PRODUCTS = (torch.mul, Tensor.mul)
PRODUCTS = (torch.matmul, Tensor.matmul, torch.bmm, *ELEMENT_PRODUCTS)


class BackwardRules(NamedTuple):
    """The rules of a method. A module or function without one keeps its gradient.

    Attributes:
        modules: kind of module -> rule; it also stands for what the module computes inside.
        functions: function -> rule.
        products: function of two operands -> rule, used where both operands depend on the input.
        constants: functions whose outputs count as constants.
    """

    modules: Mapping[Callable[[nn.Module], bool], Rule]
    functions: Mapping[Any, Rule]
    products: Mapping[Any, Rule]
    constants: Collection[Any] = ()


class ChangedBackward(TorchFunctionMode):
    """A mode in which backward passes follow some rules; `changed` switches between them and plain gradients.

    It may be switched between two backward passes through the same graph.
    """

    changed = True

    def __init__(self, rules: BackwardRules) -> None:
        super().__init__()
        self.rules = rules

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if func in self.rules.constants:
            return output.detach()
        rule = self.rules.functions.get(func)
        if rule is None and all(isinstance(x, Tensor) and x.requires_grad for x in args[:2]):
            rule = self.rules.products.get(func)
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
def changed_backward(model: nn.Module, rules: BackwardRules) -> Iterator[ChangedBackward]:
    """Apply rules to backward passes through the graph of forward passes inside the block, in this thread."""
    mode = ChangedBackward(rules)

    def apply(rule: Rule, module: nn.Module, args: tuple[Any, ...], _kwargs: object, output: Tensor) -> Any:
        return mode.ruled(rule, output, args[0], module)

    with Hooks() as hooks, mode:
        for module in model.modules():
            for applies, rule in rules.modules.items():
                if applies(module):
                    hooks.after(module, partial(apply, rule))
        yield mode
