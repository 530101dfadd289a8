"""One block of an encoder, forward with all that a way back needs, and back with either of two rules.

The derivatives are written out. A graph of autograd would keep more, go over the attention matrices more often, and
could not share what the two ways back have in common. Both are sums of the same matrix products; they differ at the
norms, at the activation, and by the share of the gradient that passes each product of attention (`Rules`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from explearn.lens.anatomy import Activation, Block, merge_heads, split_heads


@dataclass(frozen=True, slots=True)
class Normalised:
    """A norm's input and what it was divided by, float32 (float64 of a float64 model).

    x: (..., d). mean, inverse: mean and 1 / deviation over features, (..., 1).
    """

    x: torch.Tensor
    mean: torch.Tensor
    inverse: torch.Tensor


@dataclass(frozen=True, slots=True)
class Activated:
    """An activation's input and value, with a graph between these two alone."""

    x: torch.Tensor
    value: torch.Tensor


@dataclass(frozen=True, slots=True)
class Kept:
    """What the way back through a block needs; b = batch, h = heads, q = queries, n = tokens, e = width of a head.

    hidden: the block's input, (b, n, d). query: (b, h, q, e), divided by the root of e. key, value: (b, h, n, e).
    attention: (b, h, q, n).
    """

    hidden: torch.Tensor
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    attention: torch.Tensor
    attention_norm: Normalised
    activated: Activated
    norm: Normalised


@dataclass(frozen=True, slots=True)
class Rules:
    """How a gradient passes a block: plain, or `changed` as AttnLRP does (`baselines.relevance.attn_lrp`)."""

    changed: bool

    @property
    def share(self) -> float:
        """What each operand of a product gets of its gradient: of A V, and of Q K^T."""
        return 0.5 if self.changed else 1.0

    def norm(self, norm: nn.LayerNorm, kept: Normalised, gradient: torch.Tensor) -> torch.Tensor:
        """Through a layer norm; changed, with its deviation held constant. Always a new tensor."""
        exact, weight = _as(kept.x, gradient), norm.weight.to(kept.x.dtype)
        if self.changed:
            scaled = exact * weight
            found = scaled.sub_(scaled.mean(-1, keepdim=True)).mul_(kept.inverse)
        else:
            bias, shape = norm.bias.to(kept.x.dtype), list(norm.normalized_shape)
            back: Any = torch.ops.aten.native_layer_norm_backward
            found = back(exact, kept.x, shape, kept.mean, kept.inverse, weight, bias, [True, False, False])[0]
        return found.to(gradient.dtype)

    def activation(self, kept: Activated, gradient: torch.Tensor) -> torch.Tensor:
        """Through an activation f; changed, by f(x) / x, and 0 at x = 0, where f(0) = 0."""
        gradient = _as(kept.value, gradient)
        if not self.changed:
            (found,) = torch.autograd.grad(kept.value, kept.x, gradient, retain_graph=True)
            return found
        # 0 / 0 alone is made 0: one pass over the tensor, where a mask takes three.
        ratio = (kept.value.detach() / kept.x.detach()).nan_to_num_(nan=0.0, posinf=torch.inf, neginf=-torch.inf)
        return ratio.mul_(gradient)


PLAIN, CHANGED = Rules(changed=False), Rules(changed=True)


# ---- forward -----------------------------------------------------------------------------------------------------


def forward(block: Block, hidden: torch.Tensor, padding: torch.Tensor | None) -> tuple[torch.Tensor, Kept]:
    """A block's result, (b, n, d).

    Args:
        hidden: its input, (b, n, d).
        padding: True at padding, (b, 1, 1, n); None: there is none.
    """
    return _forward(block, hidden, hidden, padding)


def forward_first(block: Block, hidden: torch.Tensor, padding: torch.Tensor | None) -> tuple[torch.Tensor, Kept]:
    """The first row of a block's result alone, (b, 1, d)."""
    return _forward(block, hidden[:, :1], hidden, padding)


def _forward(
    block: Block, rows: torch.Tensor, hidden: torch.Tensor, padding: torch.Tensor | None
) -> tuple[torch.Tensor, Kept]:
    query, key, value = queries(block, rows), _project(block.key, block, hidden), _project(block.value, block, hidden)
    attention = attend(query, key, padding)
    result, attention_norm, activated, norm = _behind_attention(block, merge_heads(attention @ value), rows)
    return result, Kept(hidden, query, key, value, attention, attention_norm, activated, norm)


def attend(query: torch.Tensor, key: torch.Tensor, padding: torch.Tensor | None) -> torch.Tensor:
    """Attention probabilities, (b, h, q, n), of queries that are scaled."""
    scores = query @ key.transpose(-1, -2)
    if padding is not None:
        scores = scores.masked_fill_(padding, float("-inf"))
    found: torch.Tensor = scores.softmax(-1)
    return found


def queries(block: Block, rows: torch.Tensor) -> torch.Tensor:
    """The queries of some rows, (b, h, q, e), divided by the root of e."""
    return _project(block.query, block, rows, (block.query.out_features // block.heads) ** -0.5)


def _project(linear: nn.Linear, block: Block, vectors: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
    """factor * (W x + c), (b, h, n, e), in the order in which products read it: c is added on the way there."""
    by_head = split_heads(vectors @ linear.weight.t(), block.heads)
    found = torch.empty(by_head.shape, dtype=by_head.dtype, device=by_head.device)
    bias = linear.bias.view(block.heads, 1, -1)
    return torch.add(bias if factor == 1.0 else bias * factor, by_head, alpha=factor, out=found)


def _heads(vectors: torch.Tensor, block: Block) -> torch.Tensor:
    """(b, n, d) -> (b, h, n, e), in the order in which products read it."""
    return split_heads(vectors, block.heads).contiguous()


def _behind_attention(
    block: Block, context: torch.Tensor, rows: torch.Tensor
) -> tuple[torch.Tensor, Normalised, Activated, Normalised]:
    """From the mixed values to the block's result."""
    middle, attention_norm = _normalise(block.attention_norm, _onto(rows, block.output, context))
    activated = activate(block.activation, block.expand(middle))
    result, norm = _normalise(block.norm, _onto(middle, block.contract, activated.value.detach()))
    return result, attention_norm, activated, norm


def _onto(x: torch.Tensor, linear: nn.Linear, vectors: torch.Tensor) -> torch.Tensor:
    """x + W v + c: a linear map added to what passes by it, a new tensor."""
    return _add(x + linear.bias, vectors, linear.weight.t(), 1.0)


def activate(activation: Activation, x: torch.Tensor) -> Activated:
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        return Activated(leaf, activation(leaf))


def _normalise(norm: nn.LayerNorm, x: torch.Tensor) -> tuple[torch.Tensor, Normalised]:
    exact = x if x.dtype == torch.float64 else x.float()
    weight, bias, shape = norm.weight.to(exact.dtype), norm.bias.to(exact.dtype), list(norm.normalized_shape)
    found, mean, inverse = torch.native_layer_norm(exact, shape, weight, bias, norm.eps)
    return found.to(x.dtype), Normalised(exact, mean, inverse)


# ---- back --------------------------------------------------------------------------------------------------------


def back(block: Block, kept: Kept, gradient: torch.Tensor, rules: Rules) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients at a block's input, (b, n, d), and, not changed yet by rules, at its attention, (b, h, n, n).

    Args:
        gradient: at its result, (b, n, d).
    """
    found = _before_attention(block, kept, gradient, rules)
    context = _heads(found @ block.output.weight, block)
    attention = context @ kept.value.transpose(-1, -2)
    value = kept.attention.transpose(-1, -2) @ context
    scores = _softmax_back(attention, kept.attention)
    share, scale = rules.share, kept.query.shape[-1] ** -0.5
    found = _add_product(found, value, block.value, share)
    found = _add_product(found, scores @ kept.key, block.query, share * share * scale)
    found = _add_product(found, scores.transpose(-1, -2) @ kept.query, block.key, share * share)
    return found, attention


def back_first(block: Block, kept: Kept, gradient: torch.Tensor, rules: Rules) -> tuple[torch.Tensor, torch.Tensor]:
    """As `back`, from the first row of the result, (b, 1, d); the attention's is (b, h, 1, n).

    With one query, the gradient of keys and of values is, in each head, a number for each token times one vector. The
    vector goes through the weights, not the product.
    """
    row = _before_attention(block, kept, gradient, rules)
    context = _heads(row @ block.output.weight, block)
    attention = context @ kept.value.transpose(-1, -2)
    scores = _softmax_back(attention, kept.attention)
    share, scale = rules.share, kept.query.shape[-1] ** -0.5
    found = kept.attention[:, :, 0].transpose(-1, -2) @ _through(context, block.value, block) * share
    found += scores[:, :, 0].transpose(-1, -2) @ _through(kept.query, block.key, block) * (share * share)
    found[:, :1] += _add_product(row, scores @ kept.key, block.query, share * share * scale)
    return found, attention


def _through(vectors: torch.Tensor, linear: nn.Linear, block: Block) -> torch.Tensor:
    """One vector a head, (b, h, 1, e), through the weight's rows of that head, (b, h, d)."""
    return torch.einsum("bhe,hed->bhd", vectors[:, :, 0], linear.weight.view(block.heads, -1, linear.in_features))


def _before_attention(block: Block, kept: Kept, gradient: torch.Tensor, rules: Rules) -> torch.Tensor:
    """From the block's result to the sum of the attention's result and the block's input."""
    found = rules.norm(block.norm, kept.norm, gradient)
    inner = rules.activation(kept.activated, found @ block.contract.weight)
    return rules.norm(block.attention_norm, kept.attention_norm, _add(found, inner, block.expand.weight, 1.0))


def _softmax_back(gradient: torch.Tensor, attention: torch.Tensor) -> torch.Tensor:
    """Gradient at the logits, (b, h, q, n)."""
    found: torch.Tensor = torch.ops.aten._softmax_backward_data(
        _as(attention, gradient), attention, -1, attention.dtype
    )
    return found


def _add_product(found: torch.Tensor, vectors: torch.Tensor, linear: nn.Linear, factor: float) -> torch.Tensor:
    """`found`, (b, n, d), with factor * vectors W added; vectors: (b, h, n, e)."""
    return _add(found, merge_heads(vectors), linear.weight, factor)


def _add(found: torch.Tensor, vectors: torch.Tensor, weight: torch.Tensor, factor: float) -> torch.Tensor:
    """found + factor * vectors weight, in the place of `found` where that is possible."""
    device = found.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        # Its products are of low precision; the sum is to stay in the precision of `found`.
        return found + factor * (vectors @ weight)
    # A view or an error: of a copy the sum would be lost.
    found.view(-1, found.shape[-1]).addmm_(vectors.flatten(0, 1), weight, alpha=factor)
    return found


def _as(kept: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """A gradient in the precision of what it goes back through, and where that lies: there may be several devices."""
    return gradient.to(kept.device, kept.dtype)
