"""The parts of an encoder under one set of names, and a pass through a block that keeps every intermediate.

Methods that take a classifier apart (relevance propagation, token decomposition) need its linear maps, layer norms and
activations in the order in which they act. `dissect` finds them where `models.architectures` says; `trace_block` runs
those of a block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any, cast

import torch
from torch import nn

from explearn.core.errors import UnsupportedError
from explearn.lens.capture import layer_count
from explearn.model.architectures import BlockParts, architecture, blocks_in_order, unusual_build
from explearn.model.encoding import Batch
from explearn.model.question_answering import SpanScorer

Activation = Callable[[torch.Tensor], torch.Tensor]
Bias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_FUNCTIONS: dict[str, Activation] = {"relu": nn.functional.relu, "tanh": torch.tanh}
"""Activations that a head calls as functions (`architectures.HeadParts`)."""


@dataclass(frozen=True, slots=True)
class Block:
    """One Transformer block with layer norms after the residual sums (post-LN), as all supported encoders have.

    x -> attention_norm(x + output(attention(query(x), key(x), value(x)))) = y
    y -> norm(y + contract(activation(expand(y))))

    Attention logits are Q K^T `scale` + `bias`(Q, K); a scale of None is d^-0.5 with d the heads' size, and no bias 0.
    `bias` takes queries and keys, (batch, heads, tokens, d), not scaled, and gives (batch, heads, tokens, tokens);
    `bias_modules` hold the weights that it takes besides those of `query` and `key`.
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
    scale: float | None = None
    bias: Bias | None = None
    bias_modules: tuple[nn.Module, ...] = ()

    def logits(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        """Attention logits, (batch, heads, tokens, tokens), before padding is masked."""
        products = query @ key.transpose(-1, -2)
        return self.biased(products * (query.shape[-1] ** -0.5 if self.scale is None else self.scale), query, key)

    def biased(self, scores: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        """Logits from the scaled products of queries and keys."""
        return scores if self.bias is None else scores + self.bias(query, key)


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
        masked: whether the embeddings of padding are set to 0 (DeBERTa).
    """

    embeddings: nn.Module
    projection: nn.Linear | None
    blocks: tuple[Block, ...]
    head: Head
    segments: bool = True
    masked: bool = False

    def embed(self, batch: Batch) -> torch.Tensor:
        """Input of the first block, shape (batch, tokens, d): embeddings, projected where the encoder does so."""
        types = {}
        if batch.token_type_ids is not None and self.segments:
            types["token_type_ids"] = batch.token_type_ids
        if self.masked:
            types["mask"] = batch.attention_mask
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
    assert entry.head is not None and entry.head.dense is not None and entry.head.activation is not None
    with unusual_build(classifier.config):
        head = Head(
            dense=attrgetter(entry.head.dense)(model),
            activation=activation_of(classifier, entry.head.activation),
            classifier=_linear(attrgetter(entry.head.classifier)(model)),
        )
    masked = entry.bias == "disentangled"
    return Anatomy(encoder.embeddings, encoder.projection, encoder.blocks, head, entry.segments, masked)


def dissect_encoder(base: nn.Module) -> Encoder:
    """Find the parts of an encoder without its head (transformers' AutoModel).

    Raises UnsupportedError as `dissect` does.
    """
    count = layer_count(base)
    encoder: Any = base
    entry = architecture(encoder.config)
    if entry.parts is None:
        raise UnsupportedError(
            f"a {encoder.config.model_type!r} model cannot be taken apart: this method is derived for blocks with "
            "norms behind the residual sums, and here norms stand before the sub-layers; gae, attcat, grad_cam, "
            "attn_lrp, rollout and the methods that look at gradients or perturbed texts explain it"
        )
    with unusual_build(encoder.config):
        blocks = tuple(_block(block, entry.parts) for block in blocks_in_order(base))
        if entry.bias is not None:
            add = BIASES[entry.bias]
            blocks = tuple(map(add, [encoder.encoder] * len(blocks), blocks_in_order(base), blocks))
        projection = None
        if entry.projection is not None:
            owner, _, name = entry.projection.rpartition(".")
            # Small ELECTRA has a projection, base ELECTRA has none.
            projection = getattr(attrgetter(owner)(encoder) if owner else encoder, name, None)
    assert len(blocks) == count
    return Encoder(encoder.embeddings, projection, blocks)


def activation_of(model: Any, name: str) -> Activation:
    """By its name as a function, or by its path, which leads to a module or to a name in the configuration."""
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    found = attrgetter(name)(model)
    if isinstance(found, str):
        from transformers.activations import ACT2FN

        return cast(Activation, ACT2FN[found])
    return cast(Activation, found)


def _relative(encoder: Any, _layer: nn.Module, block: Block) -> Block:
    """A block with MPNet's position bias: a number for each head and (bucket of) distance, the same in all layers."""

    def bias(query: torch.Tensor, _key: torch.Tensor) -> torch.Tensor:
        return cast(torch.Tensor, encoder.compute_position_bias(query[:, 0])).to(query.dtype)

    return replace(block, bias=bias, bias_modules=(encoder.relative_attention_bias,))


def _disentangled(encoder: Any, layer: Any, block: Block) -> Block:
    """A block with DeBERTa's products of content and distance, (He et al. 2021, eq. 4).

    Raises AttributeError where a convolution follows the first layer.
    """
    if encoder.conv is not None:
        raise AttributeError("a convolution follows its first layer")
    own = layer.attention.self
    terms = 1 + sum(kind in own.pos_att_type for kind in ("c2p", "p2c"))
    # transformers takes the root in float32 whatever the precision of the weights; so must what follows its sums.
    scale = 1 / torch.tensor(own.attention_head_size * terms, dtype=torch.float32).sqrt().item()
    if not own.relative_attention:
        return replace(block, scale=scale)

    def bias(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        shape = (*query.shape[:3], key.shape[2])
        flat = query.flatten(0, 1), key.flatten(0, 1)
        distances = encoder.get_rel_pos(query[:, 0])
        found = own.disentangled_attention_bias(*flat, distances, encoder.get_rel_embedding(), terms)
        return cast(torch.Tensor, found).view(shape)

    names = ("rel_embeddings", "LayerNorm"), ("pos_key_proj", "pos_query_proj")
    found = (getattr(owner, name, None) for owner, those in zip((encoder, own), names, strict=True) for name in those)
    return replace(block, scale=scale, bias=bias, bias_modules=tuple(m for m in found if m is not None))


BIASES: dict[str, Callable[[Any, Any, Block], Block]] = {"relative": _relative, "disentangled": _disentangled}
"""What `architectures.Architecture.bias` names."""


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
    scores = block.logits(query, key)
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
