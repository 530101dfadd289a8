"""The parts of an encoder under one set of names, and a forward pass through them that keeps every intermediate.

Methods that take a classifier apart (relevance propagation, token decomposition) need its linear maps, layer norms and
activations in the order in which they act. `dissect` finds them where `models.architectures` says; `trace` runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

import torch
from torch import nn

from explearn.core.errors import UnsupportedError
from explearn.introspection.capture import layer_count
from explearn.models.architectures import BlockParts, architecture, blocks_in_order, unusual_build
from explearn.models.encoding import Batch
from explearn.models.question_answering import SpanScorer

Activation = Callable[[torch.Tensor], torch.Tensor]

_FUNCTIONS: dict[str, Activation] = {"relu": nn.functional.relu, "tanh": torch.tanh}
"""Activations that a head calls as functions (`architectures.HeadParts`)."""


@dataclass(frozen=True, slots=True)
class Block:
    """One Transformer block with layer norms after the residual sums (post-LN), as all supported encoders have.

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


@dataclass(frozen=True, slots=True)
class Head:
    """Classification head on the first token's vector: classifier(activation(dense(h)))."""

    dense: nn.Linear
    activation: Activation
    classifier: nn.Linear


@dataclass(frozen=True, slots=True)
class Anatomy:
    """Parts of a sequence classifier.

    Attributes:
        embeddings: module from token ids to normalised embeddings.
        projection: linear map from embeddings to the width of the blocks (ALBERT, small ELECTRA), or None.
        blocks: in the order in which they run; ALBERT's shared block stands there once for each time it runs.
        head: classification head.
        segments: whether the embeddings take segment ids.
    """

    embeddings: nn.Module
    projection: nn.Linear | None
    blocks: tuple[Block, ...]
    head: Head
    segments: bool = True

    def embed(self, batch: Batch) -> torch.Tensor:
        """Input of the first block, shape (batch, tokens, d): embeddings, projected where the encoder does so."""
        types = {}
        if batch.token_type_ids is not None and self.segments:
            types["token_type_ids"] = batch.token_type_ids
        embedded: torch.Tensor = self.embeddings(input_ids=batch.input_ids, **types)
        return embedded if self.projection is None else self.projection(embedded)


@dataclass(frozen=True, slots=True)
class BlockTrace:
    """Intermediates of one block; b = batch, h = heads, n = tokens, d = width, m = width of the feed-forward layer.

    Attributes:
        input: x, (b, n, d).
        query, key, value: (b, h, n, d / h), the query not yet scaled.
        attention: probabilities, (b, h, n, n), row = query.
        context: attention-weighted values, heads side by side, (b, n, d).
        attended: output(context), (b, n, d).
        attention_sum: x + attended, (b, n, d); middle: y = attention_norm(attention_sum), (b, n, d).
        expanded: expand(y), (b, n, m); activated: activation(expanded), (b, n, m); contracted: (b, n, d).
        sum: y + contracted, (b, n, d); result: norm(sum), (b, n, d), the next block's input.
    """

    input: torch.Tensor
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    attention: torch.Tensor
    context: torch.Tensor
    attended: torch.Tensor
    attention_sum: torch.Tensor
    middle: torch.Tensor
    expanded: torch.Tensor
    activated: torch.Tensor
    contracted: torch.Tensor
    sum: torch.Tensor
    result: torch.Tensor


@dataclass(frozen=True, slots=True)
class Trace:
    """Intermediates of a whole classifier; dense = head.dense(first token), activated = head.activation(dense), (b, d);
    logits (b, C)."""

    blocks: tuple[BlockTrace, ...]
    dense: torch.Tensor
    activated: torch.Tensor
    logits: torch.Tensor


@dataclass(frozen=True, slots=True)
class Encoder:
    """Parts of an encoder without a head; the attributes are those of Anatomy."""

    embeddings: nn.Module
    projection: nn.Linear | None
    blocks: tuple[Block, ...]


def dissect(model: nn.Module) -> Anatomy:
    """Find a classifier's parts.

    Raises UnsupportedError for model types whose parts `models.architectures` does not give, for variants whose blocks
    are built in another way, and for models that answer questions, which have no classification head.
    """
    layer_count(model)
    if isinstance(model, SpanScorer):
        raise UnsupportedError(
            "a model that answers questions has no classification head, which this method takes apart; attention, "
            "input_x_gradient, integrated_gradients, occlusion, lime and ivra explain it"
        )
    classifier: Any = model
    encoder = dissect_encoder(getattr(model, classifier.base_model_prefix))
    entry = architecture(classifier.config)
    assert entry.head is not None
    with unusual_build(classifier.config):
        activation = entry.head.activation
        head = Head(
            dense=attrgetter(entry.head.dense)(model),
            activation=_FUNCTIONS.get(activation) or attrgetter(activation)(model),
            classifier=_linear(attrgetter(entry.head.classifier)(model)),
        )
    return Anatomy(encoder.embeddings, encoder.projection, encoder.blocks, head, entry.segments)


def dissect_encoder(base: nn.Module) -> Encoder:
    """Find the parts of an encoder without its head (transformers' AutoModel).

    Raises UnsupportedError as `dissect` does.
    """
    count = layer_count(base)
    encoder: Any = base
    entry = architecture(encoder.config)
    assert entry.parts is not None
    with unusual_build(encoder.config):
        blocks = tuple(_block(block, entry.parts) for block in blocks_in_order(base))
        projection = None
        if entry.projection is not None:
            owner, _, name = entry.projection.rpartition(".")
            # Small ELECTRA has a projection, base ELECTRA has none.
            projection = getattr(attrgetter(owner)(encoder) if owner else encoder, name, None)
    assert len(blocks) == count
    return Encoder(encoder.embeddings, projection, blocks)


def _linear(module: Any) -> nn.Linear:
    if not isinstance(module, nn.Linear):
        raise AttributeError(f"its classifier is a {type(module).__name__}, not a linear map")
    return module


def _block(layer: nn.Module, parts: BlockParts) -> Block:
    found = {field.name: attrgetter(getattr(parts, field.name))(layer) for field in fields(parts)}
    return Block(**{**found, "heads": int(found["heads"])})


def split_heads(vectors: torch.Tensor, heads: int) -> torch.Tensor:
    """(batch, tokens, d) -> (batch, heads, tokens, d / heads)."""
    return vectors.view(*vectors.shape[:2], heads, -1).transpose(1, 2)


def merge_heads(vectors: torch.Tensor) -> torch.Tensor:
    """(batch, heads, tokens, d / heads) -> (batch, tokens, d)."""
    return vectors.transpose(1, 2).flatten(2)


def trace_block(block: Block, hidden: torch.Tensor, mask: torch.Tensor) -> BlockTrace:
    """Run one block on (batch, tokens, d); `mask` is bool, (batch, tokens), False at padding."""
    query, key, value = (split_heads(f(hidden), block.heads) for f in (block.query, block.key, block.value))
    scores = (query @ key.transpose(-1, -2)) * query.shape[-1] ** -0.5
    attention = scores.masked_fill(~mask[:, None, None], float("-inf")).softmax(-1)
    context = merge_heads(attention @ value)
    attended = block.output(context)
    attention_sum = attended + hidden
    middle = block.attention_norm(attention_sum)
    expanded = block.expand(middle)
    activated = block.activation(expanded)
    contracted = block.contract(activated)
    total = contracted + middle
    return BlockTrace(
        input=hidden,
        query=query,
        key=key,
        value=value,
        attention=attention,
        context=context,
        attended=attended,
        attention_sum=attention_sum,
        middle=middle,
        expanded=expanded,
        activated=activated,
        contracted=contracted,
        sum=total,
        result=block.norm(total),
    )


def trace(anatomy: Anatomy, embedded: torch.Tensor, mask: torch.Tensor) -> Trace:
    """Run a classifier part by part and keep what passes through.

    Args:
        embedded: input of the first block, (batch, tokens, d); see `Anatomy.embed`.
        mask: bool, (batch, tokens), False at padding.

    Autograd works as usual: no graph is built inside `torch.inference_mode()` or where nothing requires a gradient.
    """
    blocks = []
    hidden = embedded
    for block in anatomy.blocks:
        kept = trace_block(block, hidden, mask)
        blocks.append(kept)
        hidden = kept.result
    dense = anatomy.head.dense(hidden[:, 0])
    activated = anatomy.head.activation(dense)
    return Trace(tuple(blocks), dense, activated, anatomy.head.classifier(activated))
