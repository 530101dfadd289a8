"""The parts of an encoder under one set of names, and their inputs and outputs in a forward pass.

Methods that take a classifier apart (relevance propagation, token decomposition) need its linear maps, layer norms and
activations. `dissect` finds them where the table says (`predictors.architectures`). Hooks record their inputs and
outputs while the model runs, or while a block runs again (`trace_block`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from explearn.core.errors import UnsupportedError
from explearn.lens.attention import Attention, AttentionCalls, layer_count
from explearn.lens.hooks import Hooks
from explearn.predictors.architectures import architecture, blocks_in_order, unusual_build
from explearn.predictors.encoding import Batch

Activation = Callable[[Tensor], Tensor]

_FUNCTIONS: dict[str, Activation] = {"relu": nn.functional.relu, "tanh": torch.tanh}
"""Activations that a head calls as functions (`architectures.HeadParts`)."""


class EncoderBlock(NamedTuple):
    """A Transformer block with layer norms after the residual sums (post-LN), as in all supported encoders.

    x -> attention_norm(x + output(attention(query(x), key(x), value(x)))) = y
    y -> norm(y + contract(activation(expand(y))))
    """

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    output: nn.Linear
    heads: int
    attention_norm: nn.LayerNorm
    expand: nn.Linear
    activation: Activation
    contract: nn.Linear
    norm: nn.LayerNorm


class ClassificationHead(NamedTuple):
    """A classification head on the first token's vector: classifier(activation(dense(h)))."""

    dense: nn.Linear
    activation: Activation
    classifier: nn.Linear


class Anatomy(NamedTuple):
    """The parts of a sequence classifier.

    Attributes:
        embeddings: module from token ids to normalised embeddings.
        projection: linear map from embeddings to the width of the blocks (ALBERT, small ELECTRA), or None.
        blocks: in the order in which they run; ALBERT's shared block is listed once for each time it runs.
        head: classification head.
    """

    embeddings: nn.Module
    projection: nn.Linear | None
    blocks: tuple[EncoderBlock, ...]
    head: ClassificationHead


def check_head(model: nn.Module) -> None:
    """Raise UnsupportedError for a model whose attention cannot be captured, or without a classification head."""
    layer_count(model)
    no_head = getattr(model, "no_head", "")
    if no_head:
        raise UnsupportedError(no_head)


def check_outputs(model: nn.Module) -> None:
    """Raise UnsupportedError for a model whose head is not that of a classifier of texts, and for one whose logits pass
    through a function after the head (`explearn.explaining`)."""
    own_head = getattr(model, "own_head", "")
    if own_head:
        raise UnsupportedError(own_head)
    if getattr(model, "outputs_changed", False):
        raise UnsupportedError(
            "this method takes the head apart, and what is explained here is a function of its outputs; attn_lrp, gae, "
            "attcat and the methods that look at gradients or perturbed texts explain it"
        )


def dissect(model: nn.Module) -> Anatomy:
    """Find a classifier's parts.

    Raises:
        UnsupportedError: the model's type has no parts in the table (`predictors.architectures`), its blocks are built
            differently, or it has no classification head.
    """
    check_head(model)
    check_outputs(model)
    classifier: Any = model
    base = classifier.base_model
    entry = architecture(classifier.config)
    blocks = dissect_blocks(base)
    parts = entry.head
    assert parts is not None and parts.dense is not None and parts.activation is not None
    with unusual_build(classifier.config):
        head = ClassificationHead(
            dense=linear_map(attrgetter(parts.dense)(model)),
            activation=activation_of(classifier, parts.activation),
            classifier=linear_map(attrgetter(parts.classifier)(model)),
        )
        projection = None
        if entry.projection is not None:
            *owner, name = entry.projection.split(".")
            for part in owner:
                base = getattr(base, part)
            # Small ELECTRA has a projection, base ELECTRA has none.
            projection = getattr(base, name, None)
    return Anatomy(classifier.base_model.embeddings, projection, blocks, head)


def dissect_blocks(encoder: Any) -> tuple[EncoderBlock, ...]:
    """Find the parts of each block of an encoder without a head (transformers' AutoModel), in the order they run.

    Raises:
        UnsupportedError: as `dissect`.
    """
    parts = architecture(encoder.config).parts
    if parts is None:
        raise UnsupportedError(
            f"a {encoder.config.model_type!r} model cannot be taken apart: this method is derived for blocks with "
            "norms behind the residual sums, and here norms stand before the sub-layers; gae, attcat, grad_cam, "
            "attn_lrp, rollout and the methods that look at gradients or perturbed texts explain it"
        )
    blocks = []
    with unusual_build(encoder.config):
        if getattr(getattr(encoder, "encoder", None), "conv", None) is not None:
            raise AttributeError("a convolution follows its first layer")  # in some DeBERTa models
        for block in blocks_in_order(encoder):
            found = {field.name: attrgetter(getattr(parts, field.name))(block) for field in fields(parts)}
            blocks.append(EncoderBlock(**found))
    return tuple(blocks)


def activation_of(model: Any, name: str) -> Activation:
    """Return an activation, given a function's name, or a path to a module or to a name in the configuration."""
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    activation = attrgetter(name)(model)
    if isinstance(activation, str):
        from transformers.activations import ACT2FN

        return cast(Activation, ACT2FN[activation])
    return cast(Activation, activation)


def linear_map(module: Any) -> nn.Linear:
    """Return the module; raise AttributeError, which `unusual_build` handles, if it is not a linear map."""
    if not isinstance(module, nn.Linear):
        raise AttributeError(f"its head has a {type(module).__name__} in place of a linear map")
    return module


class BlockCall(NamedTuple):
    """A model's call of one of its blocks. Calling it runs the block again, on hidden states (b, n, d).

    Attributes:
        module: the block.
        hidden: hidden states that it was called with, (b, n, d).
        args: the other positional arguments.
        kwargs: the keyword arguments.
    """

    module: nn.Module
    hidden: Tensor
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self, hidden: Tensor) -> Tensor:
        output: Any = self.module(hidden, *self.args, **self.kwargs)
        return cast(Tensor, output[0] if isinstance(output, tuple) else output)


class BlockTrace(NamedTuple):
    """The intermediates of one block; b = batch, h = heads, n = tokens, d = width, m = width of the feed-forward layer.

    Attributes:
        input: x, (b, n, d).
        query: (b, h, n, d / h), not yet scaled.
        key: (b, h, n, d / h).
        value: (b, h, n, d / h).
        attention: probabilities, (b, h, n, n), row = query.
        context: attention-weighted values, heads side by side, (b, n, d).
        attended: output(context), (b, n, d).
        attention_sum: x + attended, (b, n, d).
        middle: y = attention_norm(attention_sum), (b, n, d).
        expanded: expand(y), (b, n, m).
        activated: activation(expanded), (b, n, m).
        contracted: contract(activated), (b, n, d).
        sum: y + contracted, (b, n, d).
        result: norm(sum), (b, n, d), the next block's input.
    """

    input: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    attention: Tensor
    context: Tensor
    attended: Tensor
    attention_sum: Tensor
    middle: Tensor
    expanded: Tensor
    activated: Tensor
    contracted: Tensor
    sum: Tensor
    result: Tensor


def trace_block(block: EncoderBlock, call: BlockCall, hidden: Tensor | None = None) -> BlockTrace:
    """Run a block again and return its intermediates, with their graph if there is one.

    Args:
        block: parts of the block.
        call: the model's call of it.
        hidden: input of the block, (b, n, d). None: its original input.
    """
    if hidden is None:
        hidden = call.hidden
    maps: list[Tensor] = []

    def write_out(attention: Attention) -> Tensor:
        maps.append(attention.matrix())
        # The model continues with these probabilities, so they are part of the graph.
        return attention.result(maps[0])

    with Hooks() as hooks, AttentionCalls(write_out):
        query = hooks.record(block.query)
        key = hooks.record(block.key)
        value = hooks.record(block.value)
        output = hooks.record(block.output)
        attention_norm = hooks.record(block.attention_norm)
        expand = hooks.record(block.expand)
        contract = hooks.record(block.contract)
        norm = hooks.record(block.norm)
        call(hidden)
    return BlockTrace(
        input=hidden,
        query=split_heads(query.output, block.heads),
        key=split_heads(key.output, block.heads),
        value=split_heads(value.output, block.heads),
        attention=maps[0],
        context=output.input,
        attended=output.output,
        attention_sum=attention_norm.input,
        middle=attention_norm.output,
        expanded=expand.output,
        activated=contract.input,
        contracted=contract.output,
        sum=norm.input,
        result=norm.output,
    )


class TracedPass(NamedTuple):
    """A forward pass of a classifier whose blocks can be computed again, one at a time.

    Attributes:
        anatomy: the classifier's parts.
        calls: of the blocks, in the order in which they run.
        embedded: output of the embeddings, before a projection, (batch, tokens, e).
        output: of the last block, (batch, tokens, d).
        activated: head.activation(head.dense(first token)), (batch, d).
        logits: (batch, C).
    """

    anatomy: Anatomy
    calls: list[BlockCall]
    embedded: Tensor
    output: Tensor
    activated: Tensor
    logits: Tensor

    @classmethod
    def run(cls, model: Any, batch: Batch) -> TracedPass:
        """Run a classifier.

        Raises:
            UnsupportedError: as `dissect`.
        """
        anatomy = dissect(model)
        calls: list[BlockCall] = []

        def on_block(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            calls.append(BlockCall(module, args[0], args[1:], kwargs))

        with Hooks() as hooks:
            for block in dict.fromkeys(blocks_in_order(model.base_model)):
                hooks.before(block, on_block)
            embeddings = hooks.record(anatomy.embeddings)
            encoder = hooks.record(model.base_model)
            classifier = hooks.record(anatomy.head.classifier)
            logits = model(**batch.model_inputs()).logits
        return cls(anatomy, calls, embeddings.output, encoder.output[0], classifier.input, logits)

    def block(self, layer: int) -> BlockTrace:
        """Compute the intermediates of a block again."""
        return trace_block(self.anatomy.blocks[layer], self.calls[layer])


def split_heads(vectors: Tensor, heads: int) -> Tensor:
    """Split vectors by head: (batch, tokens, d) -> (batch, heads, tokens, d / heads)."""
    return vectors.view(*vectors.shape[:2], heads, -1).transpose(1, 2)


def merge_heads(vectors: Tensor) -> Tensor:
    """Join the vectors of all heads: (batch, heads, tokens, d / heads) -> (batch, tokens, d)."""
    return vectors.transpose(1, 2).flatten(2)
