"""Rules by which relevance passes from what a part of a network gives to what it gets.

There are two sets. AttnLRP's say which gradient stands in the place of a part's own: a map from kinds of modules and
functions to such a gradient, which autograd carries out in whatever order a model runs its parts. Those of Chefer et
al. (2021) hand on relevance itself, in proportion to what each input gave; they need the sums and products of a block
one by one (`anatomy.BlockTrace`). There, tanh, ReLU, GELU, softmax, layer norms and the scaling of attention hand it on
unchanged, biases take none, one text knows nothing of the others in its batch, and positions of padding get 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from explearn.lens.anatomy import BlockTrace, ClassificationHead, EncoderBlock, merge_heads, split_heads
from explearn.lens.attention import at_least_float32
from explearn.lens.threads import here_only, hooked

# ---- gradients in the place of others ----------------------------------------------------------------------------

Passed = tuple[torch.Tensor | None, torch.Tensor | None]
"""Gradients that a rule passes on: at what the part gave, to go on by its own derivative, and at what it got."""


def identity_rule(gradient: torch.Tensor, output: torch.Tensor, x: torch.Tensor, _part: object) -> Passed:
    """g f(x) / x: relevance passes unchanged; 0 at x = 0, where f(0) = 0."""
    # 0 / 0 alone is made 0: one pass over the tensor, where a mask takes three.
    return None, gradient * (output / x).nan_to_num_(nan=0.0, posinf=torch.inf, neginf=-torch.inf)


def uniform_rule(gradient: torch.Tensor, _output: torch.Tensor, _x: torch.Tensor, _part: object) -> Passed:
    """Half the gradient to each operand of a product."""
    return gradient / 2, None


def norm_rule(gradient: torch.Tensor, output: torch.Tensor, x: torch.Tensor, norm: Any) -> Passed:
    """A norm with its deviation held constant."""
    if not isinstance(norm, nn.LayerNorm):
        # Without a mean, such a norm multiplies each feature by output / input.
        return identity_rule(gradient, output, x, norm)
    shape = list(norm.normalized_shape)
    _, _, inverse = torch.native_layer_norm(at_least_float32(x), shape, None, None, norm.eps)
    scaled = at_least_float32(gradient) * norm.weight
    return None, ((scaled - scaled.mean(-1, keepdim=True)) * inverse).to(x.dtype)


def is_norm(module: nn.Module) -> bool:
    """Whether it is a layer norm, or one without a mean (RMSNorm), of which each model has a class of its own."""
    return isinstance(module, nn.LayerNorm) or type(module).__name__.endswith("RMSNorm")


@cache
def _activations() -> tuple[type, ...]:
    from transformers.activations import ACT2CLS

    entries: dict[str, Any] = dict(ACT2CLS)
    return tuple(entry[0] if isinstance(entry, tuple) else entry for name, entry in entries.items() if name != "linear")


def is_activation(module: nn.Module) -> bool:
    """Whether it is one of the activations that transformers knows."""
    return isinstance(module, _activations())


Rule = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, Any], Passed]
"""(gradient at the output, output, input, module or None) -> what is passed on."""


@dataclass(frozen=True, slots=True)
class Composite:
    """A map from kinds of modules and from functions to rules; whatever is not named keeps its gradient.

    products: functions of two operands whose rule holds where both depend on the input.
    """

    source: str
    modules: Mapping[Callable[[nn.Module], bool], Rule]
    functions: Mapping[Any, Rule]
    products: Mapping[Any, Rule]


_PRODUCTS = (torch.matmul, torch.Tensor.matmul, torch.bmm, torch.mul, torch.Tensor.mul)
_FUNCTIONS = (torch.tanh, torch.Tensor.tanh, nn.functional.relu, nn.functional.gelu, nn.functional.silu)

ATTN_LRP = Composite(
    "Achtibat et al. (2024), section 3",
    modules={is_norm: norm_rule, is_activation: identity_rule},
    functions=dict.fromkeys(_FUNCTIONS, identity_rule),
    products=dict.fromkeys(_PRODUCTS, uniform_rule),
)


@dataclass(eq=False)
class ChangedBackward(TorchFunctionMode):
    """A mode in which backward passes follow a composite's rules; `changed` switches between them and plain gradients.

    It may be switched between two backward passes through the same graph.
    """

    composite: Composite
    changed: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        rule = self.composite.functions.get(func)
        if rule is None and all(isinstance(x, torch.Tensor) and x.requires_grad for x in args[:2]):
            rule = self.composite.products.get(func)
        return output if rule is None else self.ruled(rule, output, args[0])

    def ruled(self, rule: Rule, output: torch.Tensor, x: torch.Tensor, part: nn.Module | None = None) -> torch.Tensor:
        """The output of a part, whose gradient passes by a rule."""
        if not output.requires_grad:
            return output
        ruled: torch.Tensor = _Ruled.apply(output, x, part, rule, self)  # type: ignore[no-untyped-call]
        return ruled


class _Ruled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, output: torch.Tensor, x: torch.Tensor, part: Any, rule: Rule, mode: Any) -> torch.Tensor:
        ctx.save_for_backward(output, x)
        ctx.part, ctx.rule, ctx.mode = part, rule, mode
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        passed = ctx.rule(gradients[0], *ctx.saved_tensors, ctx.part) if ctx.mode.changed else (gradients[0], None)
        return (*passed, None, None, None)


@contextmanager
def changed_backward(model: nn.Module, composite: Composite = ATTN_LRP) -> Iterator[ChangedBackward]:
    """Let the graph of forward passes made inside, in this thread, go back by a composite's rules."""
    mode = ChangedBackward(composite)

    def hook(rule: Rule) -> Callable[..., Any]:
        return here_only(lambda module, args, output: mode.ruled(rule, output, args[0], module))

    kinds = composite.modules.items()
    handles = [m.register_forward_hook(hook(rule)) for m in model.modules() for kind, rule in kinds if kind(m)]
    with hooked(handles), mode:
        yield mode


# ---- relevance itself --------------------------------------------------------------------------------------------

STABILISER = 1e-9
"""Added to denominators of any sign, as Chefer et al. do."""

Pair = tuple[torch.Tensor, torch.Tensor]


def divide(relevance: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """relevance / (value + STABILISER), 0 where `value` is 0; the divisor is never 0."""
    divisor = value + STABILISER
    divisor = divisor.masked_fill(divisor == 0, STABILISER)
    return (relevance / divisor).masked_fill(value == 0, 0)


def add(relevance: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> Pair:
    """Through a + b: R_a = a R / (a + b), R_b = b R / (a + b). All of one shape, batch first."""
    share = divide(relevance, first + second)
    return first * share, second * share


def add_rescaled(relevance: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> Pair:
    """As `add`, then rescaled in each text so that the totals have the ratio |sum R_a| : |sum R_b| and add up to sum R.

    This also keeps them from blowing up where a + b is near 0.
    """
    parts = add(relevance, first, second)
    total, *sums = (part.sum(tuple(range(1, part.ndim)), keepdim=True) for part in (relevance, *parts))
    size = sums[0].abs() + sums[1].abs()
    scaled = [part.mul_(divide(divide(s.abs(), size) * total, s)) for part, s in zip(parts, sums, strict=True)]
    return scaled[0], scaled[1]


def share_once(relevance: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor) -> Pair:
    """S1 = S2 = R / (z1 + z2)."""
    share = divide(relevance, positive + negative)
    return share, share


def share_twice(relevance: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor) -> Pair:
    """S1 = R / z1, S2 = R / z2: each is given all of R, and the total doubles unless one of them is 0."""
    return divide(relevance, positive), divide(relevance, negative)


@dataclass(frozen=True, slots=True)
class Rules:
    """What linear maps and sums hand to their inputs.

    shares: (R, z1, z2) -> (S1, S2), relevance for each unit of z1 = W+ x+ >= 0 and of z2 = W- x- >= 0, at a linear map.
    add: (R, a, b) -> (R_a, R_b), at a sum.
    """

    shares: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Pair]
    add: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Pair]

    def linear(self, relevance: torch.Tensor, inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Through x -> W x, where only products w x > 0 count (alpha1-beta0; Bach et al., 2015).

        With W+, W- and x+, x- the positive and negative parts: R_in = x+ * (W+^T S1) + x- * (W-^T S2).

        Args:
            relevance: (..., d_out). inputs: x, (..., d_in). weight: W, (d_out, d_in).

        Returns (..., d_in).
        """
        positive, negative = inputs.clamp(min=0), inputs.clamp(max=0)
        positive_weight, negative_weight = weight.clamp(min=0), weight.clamp(max=0)
        first, second = self.shares(relevance, positive @ positive_weight.T, negative @ negative_weight.T)
        return positive.mul_(first @ positive_weight).add_(negative.mul_(second @ negative_weight))


RULES = {"conserving": Rules(share_once, add_rescaled), "doubling": Rules(share_twice, add)}
"""Chefer et al. (2021, section 3).

conserving: what reaches the inputs of a part adds up to what reached its outputs. Exceptions, all rare: an output
without a product w x > 0 and an input that is exactly 0 hand nothing on, and the stabiliser keeps a few parts in 10^9.
doubling: their code runs its baselines partial and full LRP with these. Relevance can blow up or turn its sign at sums.
"""


def join(value: torch.Tensor, relevances: Sequence[torch.Tensor]) -> torch.Tensor:
    """Relevance of a value x used several times: x * sum_i R_i / x."""
    return value * cast(torch.Tensor, sum(divide(relevance, value) for relevance in relevances))


def product(relevance: torch.Tensor, left: torch.Tensor, right: torch.Tensor, value: torch.Tensor) -> Pair:
    """Through value = left @ right; each operand gets half: R_left = left * (S right^T) / 2 with S = R / value."""
    share = divide(relevance, value)
    return (
        (share @ right.transpose(-1, -2)).mul_(left).mul_(0.5),
        (left.transpose(-1, -2) @ share).mul_(right).mul_(0.5),
    )


@dataclass(frozen=True, slots=True)
class AttentionRelevance:
    """Relevance inside a block, where it has come down to the attention; together it is all of the block's.

    attention: of the attention probabilities, (batch, heads, tokens, tokens). value: of the values, (batch, heads,
    tokens, d / heads). skipped: of the block's input on the way past the attention, (batch, tokens, d).
    """

    attention: torch.Tensor
    value: torch.Tensor
    skipped: torch.Tensor


def through_head(
    rules: Rules, head: ClassificationHead, hidden: torch.Tensor, activated: torch.Tensor, relevance: torch.Tensor
) -> torch.Tensor:
    """From the logits to the last block's output.

    Args:
        hidden: last block's output, (batch, tokens, d). activated: head.activation(head.dense(first token)),
            (batch, d). relevance: (batch, C).

    Returns (batch, tokens, d), 0 but at the first token.
    """
    relevance = rules.linear(relevance, activated, head.classifier.weight)
    first = hidden[:, 0]
    result = torch.zeros_like(hidden)
    result[:, 0] = join(first, [rules.linear(relevance, first, head.dense.weight)])
    return result


def to_attention(rules: Rules, block: EncoderBlock, kept: BlockTrace, relevance: torch.Tensor) -> AttentionRelevance:
    """From a block's output, (batch, tokens, d), to its attention probabilities and values."""
    contracted, middle = rules.add(relevance, kept.contracted, kept.middle)
    activated = rules.linear(contracted, kept.activated, block.contract.weight)
    expanded = rules.linear(activated, kept.middle, block.expand.weight)
    attention_sum = join(kept.middle, [middle, expanded])
    attended, skipped = rules.add(attention_sum, kept.attended, kept.input)
    context = split_heads(rules.linear(attended, kept.context, block.output.weight), block.heads)
    attention, value = product(context, kept.attention, kept.value, split_heads(kept.context, block.heads))
    return AttentionRelevance(attention, value, skipped)


def to_input(rules: Rules, block: EncoderBlock, kept: BlockTrace, reached: AttentionRelevance) -> torch.Tensor:
    """From a block's attention probabilities and values to its input, (batch, tokens, d)."""
    logits = kept.query @ kept.key.transpose(-1, -2)
    # The padding mask is a sum too, with a zero wherever relevance is; the stabiliser shows in it.
    scaled = logits * kept.query.shape[-1] ** -0.5
    relevance, _ = rules.add(reached.attention, scaled, scaled.new_zeros(()))
    query, key = product(relevance, kept.query, kept.key.transpose(-1, -2), logits)
    parts = [
        rules.linear(merge_heads(part), kept.input, linear.weight)
        for part, linear in (
            (query, block.query),
            (key.transpose(-1, -2), block.key),
            (reached.value, block.value),
        )
    ]
    return join(kept.input, [reached.skipped, join(kept.input, parts)])
