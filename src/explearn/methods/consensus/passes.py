"""One forward pass, taken apart, with two backward passes over it: the plain gradient, and AttnLRP's changed one.

Both go through one graph. Its activations, layer norms and products of attention follow a switch, which says whose
rules the backward pass obeys; all else is the same for both. Where the classifier reads the first token alone, the last
block's graph holds that token's row alone: no other row of it has a gradient. The rest of that block, which some
methods read, is computed without a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import nn

from explearn.introspection.anatomy import Activation, Anatomy, Block, Head, dissect, merge_heads, split_heads
from explearn.introspection.gradients import full_precision
from explearn.introspection.replace import replaced_output
from explearn.methods.base.explainer import resolve_targets
from explearn.models.classifier import Classifier
from explearn.models.encoding import Batch


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be computed besides the attention.

    attention_gradients: at the attention probabilities. state_gradients: at the inputs of the blocks. word_gradients:
    at the word embeddings. relevance: AttnLRP's pass. last_attention: all rows of the last layer's attention.
    activated: what the head makes of every token's last state.
    """

    attention_gradients: bool = False
    state_gradients: bool = False
    word_gradients: bool = False
    relevance: bool = False
    last_attention: bool = False
    activated: bool = False

    @property
    def plain(self) -> bool:
        """Whether a plain backward pass is needed."""
        return self.attention_gradients or self.state_gradients or self.word_gradients


@dataclass
class SharedPass:
    """What the passes gave; without graph, in float32 (float64 of a float64 model). What was not asked for is empty.

    b = batch, h = heads, n = tokens, d = width; f: logit of the target.

    Attributes:
        logits: (b, C). targets: int64, (b,), the classes explained.
        attentions: of each layer, (b, h, n, n), row = query; of the last layer the row of [CLS] alone, (b, h, 1, n).
        last_attention: of the last layer, all rows.
        attention_gradients: df / dA, of the shapes of `attentions`.
        states: input x of each block, (b, n, d). state_gradients: df / dx.
        words: word embeddings, (b, n, e). word_gradients: df / d words.
        relevance: AttnLRP's score of each token, (b, n).
        activated: head.activation(head.dense(h_j)) of each token's last state, (b, n, k).
    """

    logits: torch.Tensor
    targets: torch.Tensor
    attentions: tuple[torch.Tensor, ...]
    last_attention: torch.Tensor | None = None
    attention_gradients: tuple[torch.Tensor, ...] = ()
    states: tuple[torch.Tensor, ...] = ()
    state_gradients: tuple[torch.Tensor, ...] = ()
    words: torch.Tensor | None = None
    word_gradients: torch.Tensor | None = None
    relevance: torch.Tensor | None = None
    activated: torch.Tensor | None = None

    @cached_property
    def head_means(self) -> tuple[torch.Tensor, ...]:
        """Mean of each of `attentions` over its heads, (b, n, n), of the last layer (b, 1, n).

        Several signals read it, and taking it goes over every attention matrix.
        """
        return tuple(attention.mean(1) for attention in self.attentions)


@dataclass(slots=True)
class _Graph:
    """Tensors in the graph, and the two results that lie outside it."""

    attentions: list[torch.Tensor] = field(default_factory=list)
    states: list[torch.Tensor] = field(default_factory=list)
    last_attention: torch.Tensor | None = None
    last: torch.Tensor | None = None


def shared_pass(classifier: Classifier, batch: Batch, targets: torch.Tensor | None, asked: Asked) -> SharedPass:
    """Run a classifier once, and back from the targets' logits (None: the predicted classes') as often as needed.

    Raises UnsupportedError for a classifier that cannot be taken apart (see `anatomy.dissect`).
    """
    anatomy = dissect(classifier.model)
    mask = batch.attention_mask.bool()
    rules = _Rules()
    backward = asked.plain or asked.relevance
    embedding: Any = classifier.model.get_input_embeddings()
    # inference_mode(False) lets a graph be built inside no_grad and inference_mode, too.
    with torch.inference_mode(False), torch.set_grad_enabled(backward), classifier.autocast():
        words = embedding(batch.input_ids).detach().requires_grad_(backward)
        with replaced_output(embedding, words):
            embedded = _embed(anatomy, batch)
        graph = _Graph()
        first = _encode(anatomy, embedded, mask, rules, asked, graph)
        head = anatomy.head
        logits = head.classifier(_activate(head.dense(first), head.activation, rules))
        chosen = resolve_targets(logits.detach(), targets)
        found = SharedPass(full_precision(logits), chosen, tuple(map(full_precision, graph.attentions)))
        if graph.last_attention is not None:
            found.last_attention = full_precision(graph.last_attention)
        if asked.activated:
            assert graph.last is not None
            found.activated = _activated(head, graph.last)
        one_hot = nn.functional.one_hot(chosen, logits.shape[-1]).to(logits.dtype)
        if asked.plain:
            _plain(found, asked, logits, one_hot, words, graph)
        if asked.relevance:
            rules.changed = True
            (gradient,) = torch.autograd.grad(logits, embedded, one_hot)
            found.relevance = (full_precision(gradient) * full_precision(embedded)).sum(-1)
    return found


def _embed(anatomy: Anatomy, batch: Batch) -> torch.Tensor:
    """Output of the embeddings, before a projection."""
    types = {}
    if batch.token_type_ids is not None and anatomy.segments:
        types["token_type_ids"] = batch.token_type_ids
    embedded: torch.Tensor = anatomy.embeddings(input_ids=batch.input_ids, **types)
    return embedded


def _encode(
    anatomy: Anatomy, embedded: torch.Tensor, mask: torch.Tensor, rules: _Rules, asked: Asked, graph: _Graph
) -> torch.Tensor:
    """The first token's last state, (b, d); fills `graph`."""
    # Most batches of equal length have no padding, and masking goes over every attention matrix.
    padding = None if bool(mask.all()) else ~mask[:, None, None]
    hidden = embedded if anatomy.projection is None else anatomy.projection(embedded)
    for block in anatomy.blocks[:-1]:
        graph.states.append(hidden)
        hidden, attention, _, _ = _block(block, hidden, hidden, padding, rules)
        graph.attentions.append(attention)
    graph.states.append(hidden)
    first, attention, key, value = _block(anatomy.blocks[-1], hidden[:, :1], hidden, padding, rules)
    graph.attentions.append(attention)
    if asked.last_attention or asked.activated:
        _rest_of_last(anatomy.blocks[-1], hidden, key, value, padding, asked, graph)
    return first[:, 0]


def _block(
    block: Block, rows: torch.Tensor, hidden: torch.Tensor, padding: torch.Tensor | None, rules: _Rules
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """One block for some rows (queries) of its input: their result, attention, and all keys and values."""
    # Half the gradient to each operand of a product: of Q K^T here, at its operands; of A V below, at its result.
    query, key = (split_heads(_halve(part, rules), block.heads) for part in (block.query(rows), block.key(hidden)))
    value = split_heads(block.value(hidden), block.heads)
    attention = _attention(query, key, padding)
    context = _halve(merge_heads(attention @ value), rules)
    middle = _normalise(block.attention_norm, block.output(context) + rows, rules)
    activated = _activate(block.expand(middle), block.activation, rules)
    return _normalise(block.norm, block.contract(activated) + middle, rules), attention, key, value


def _attention(query: torch.Tensor, key: torch.Tensor, padding: torch.Tensor | None) -> torch.Tensor:
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
    if padding is not None:
        scores = scores.masked_fill_(padding, float("-inf"))
    found: torch.Tensor = scores.softmax(-1)
    return found


@torch.no_grad()
def _rest_of_last(
    block: Block,
    hidden: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    padding: torch.Tensor | None,
    asked: Asked,
    graph: _Graph,
) -> None:
    """All rows of the last block, without a graph."""
    attention = _attention(split_heads(block.query(hidden), block.heads), key, padding)
    graph.last_attention = attention
    if asked.activated:
        middle = block.attention_norm(block.output(merge_heads(attention @ value)) + hidden)
        graph.last = block.norm(block.contract(block.activation(block.expand(middle))) + middle)


@torch.no_grad()
def _activated(head: Head, last: torch.Tensor) -> torch.Tensor:
    return full_precision(head.activation(head.dense(last)))


def _plain(
    found: SharedPass,
    asked: Asked,
    logits: torch.Tensor,
    one_hot: torch.Tensor,
    words: torch.Tensor,
    graph: _Graph,
) -> None:
    """The plain backward pass: fill in the gradients asked for."""
    wanted = [
        *(graph.attentions if asked.attention_gradients else ()),
        *(graph.states if asked.state_gradients else ()),
        *((words,) if asked.word_gradients else ()),
    ]
    gradients = [
        full_precision(gradient)
        for gradient in torch.autograd.grad(logits, wanted, one_hot, retain_graph=asked.relevance)
    ]
    layers = len(graph.attentions)
    if asked.attention_gradients:
        found.attention_gradients, gradients = tuple(gradients[:layers]), gradients[layers:]
    if asked.state_gradients:
        found.states = tuple(map(full_precision, graph.states))
        found.state_gradients, gradients = tuple(gradients[:layers]), gradients[layers:]
    if asked.word_gradients:
        found.words = full_precision(words)
        (found.word_gradients,) = gradients


# ---- parts whose backward pass follows a switch ----------------------------------------------------------------------


@dataclass(slots=True)
class _Rules:
    """Whose rules a backward pass obeys: plain gradients, or those of AttnLRP (`baselines.relevance.attn_lrp`).

    Set before the backward pass, read in it.
    """

    changed: bool = False


class _Halve(torch.autograd.Function):
    """The identity; changed, it passes on half the gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, rules: _Rules) -> torch.Tensor:
        ctx.rules = rules
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0] / 2 if ctx.rules.changed else gradients[0], None


class _Inner(torch.autograd.Function):
    """A function of one tensor with a small graph of its own, for the plain backward pass.

    changed_gradient: (x, value, gradient of the value) -> gradient of x, for the changed one.
    """

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, function: Activation, changed_gradient: Callable[..., torch.Tensor], rules: _Rules
    ) -> torch.Tensor:
        with torch.enable_grad():
            ctx.x = x.detach().requires_grad_()
            ctx.value = function(ctx.x)
        ctx.changed_gradient, ctx.rules = changed_gradient, rules
        detached: torch.Tensor = ctx.value.detach()
        return detached

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        if ctx.rules.changed:
            return ctx.changed_gradient(ctx.x.detach(), ctx.value.detach(), gradients[0]), None, None, None
        (gradient,) = torch.autograd.grad(ctx.value, ctx.x, gradients[0], retain_graph=True)
        return gradient, None, None, None


def _halve(x: torch.Tensor, rules: _Rules) -> torch.Tensor:
    if not torch.is_grad_enabled():
        return x
    halved: torch.Tensor = _Halve.apply(x, rules)  # type: ignore[no-untyped-call]
    return halved


def _activate(x: torch.Tensor, activation: Activation, rules: _Rules) -> torch.Tensor:
    """Identity rule: the gradient f(x) / x, and 0 at x = 0, where f(0) = 0."""

    def changed(x: torch.Tensor, value: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        # 0 / 0 alone is made 0: one pass over the tensor, where a mask takes three.
        return (value / x).nan_to_num_(nan=0.0, posinf=torch.inf, neginf=-torch.inf).mul_(gradient)

    if not torch.is_grad_enabled():
        return activation(x)
    activated: torch.Tensor = _Inner.apply(x, activation, changed, rules)  # type: ignore[no-untyped-call]
    return activated


def _normalise(norm: nn.LayerNorm, x: torch.Tensor, rules: _Rules) -> torch.Tensor:
    """Changed: the plain gradient with the standard deviation held constant."""

    def changed(x: torch.Tensor, value: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        exact = x if x.dtype == torch.float64 else x.float()
        # Its third result, 1 / deviation, comes five times as fast as from torch.var.
        shape = list(norm.normalized_shape)
        _, _, inverse = torch.native_layer_norm(exact, shape, norm.weight, norm.bias, norm.eps)
        scaled = gradient * norm.weight
        return scaled.sub_(scaled.mean(-1, keepdim=True)).mul_(inverse).to(x.dtype)

    if not torch.is_grad_enabled():
        plain: torch.Tensor = norm(x)
        return plain
    normalised: torch.Tensor = _Inner.apply(x, norm, changed, rules)  # type: ignore[no-untyped-call]
    return normalised
