"""The parts of an encoder under one set of names, and a forward pass through them that keeps every intermediate.

Methods that take a classifier apart (relevance propagation, token decomposition) need its linear maps, layer norms and
activations in the order in which they act. `dissect` finds them in each supported architecture; `trace` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn

from explearn.core.errors import UnsupportedError
from explearn.introspection.capture import layer_count
from explearn.models.encoding import Batch
from explearn.models.question_answering import SpanScorer

Activation = Callable[[torch.Tensor], torch.Tensor]


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
    """

    embeddings: nn.Module
    projection: nn.Linear | None
    blocks: tuple[Block, ...]
    head: Head

    def embed(self, batch: Batch) -> torch.Tensor:
        """Input of the first block, shape (batch, tokens, d): embeddings, projected where the encoder does so."""
        types = {}
        if batch.token_type_ids is not None and hasattr(self.embeddings, "token_type_embeddings"):
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

    Raises UnsupportedError for architectures other than those of `capture.SUPPORTED_MODEL_TYPES`, and for variants of
    them whose blocks are built in another way; for models that answer questions, which have no classification head.
    """
    layer_count(model)
    if isinstance(model, SpanScorer):
        raise UnsupportedError(
            "a model that answers questions has no classification head, which this method takes apart; attention, "
            "input_x_gradient, integrated_gradients, occlusion, lime and ivra explain it"
        )
    base: Any = getattr(model, cast(Any, model).base_model_prefix)
    encoder = dissect_encoder(base)
    config: Any = model.config
    with _unusual_build(config):
        if config.model_type == "distilbert":
            head = Head(
                cast(Any, model).pre_classifier, nn.functional.relu, _linear(cast(Any, model).classifier, "classifier")
            )
        elif config.model_type == "albert":
            head = Head(base.pooler, base.pooler_activation, _linear(cast(Any, model).classifier, "classifier"))
        else:
            head = _bert_head(model, base)
    return Anatomy(encoder.embeddings, encoder.projection, encoder.blocks, head)


def dissect_encoder(base: nn.Module) -> Encoder:
    """Find the parts of an encoder without its head (transformers' AutoModel).

    Raises UnsupportedError as `dissect` does.
    """
    count = layer_count(base)
    encoder: Any = base
    config: Any = encoder.config
    with _unusual_build(config):
        if config.model_type == "distilbert":
            blocks = [_distilbert_block(layer) for layer in encoder.transformer.layer]
            projection = None
        elif config.model_type == "albert":
            groups = encoder.encoder.albert_layer_groups
            per_group = config.num_hidden_layers / config.num_hidden_groups
            blocks = [
                _albert_block(layer)
                for i in range(config.num_hidden_layers)
                for layer in groups[int(i / per_group)].albert_layers
            ]
            projection = encoder.encoder.embedding_hidden_mapping_in
        else:
            blocks = [_bert_block(layer) for layer in encoder.encoder.layer]
            projection = getattr(encoder, "embeddings_project", None)
    assert len(blocks) == count
    return Encoder(encoder.embeddings, projection, tuple(blocks))


@contextmanager
def _unusual_build(config: Any) -> Iterator[None]:
    """Turn a part that is not where it should be into an UnsupportedError."""
    try:
        yield
    except AttributeError as error:
        raise UnsupportedError(
            f"this {config.model_type!r} classifier is built in an unusual way ({error}); methods that take it apart "
            "do not know it; input_x_gradient and occlusion need no parts"
        ) from error


def _linear(module: nn.Module, name: str) -> nn.Linear:
    if not isinstance(module, nn.Linear):
        raise AttributeError(f"its {name} is a {type(module).__name__}, not a linear map")
    return module


def _bert_head(model: nn.Module, base: Any) -> Head:
    classifier = cast(Any, model).classifier
    if isinstance(classifier, nn.Linear):
        return Head(base.pooler.dense, base.pooler.activation, classifier)
    # ELECTRA's head names its activation; RoBERTa's is tanh.
    return Head(classifier.dense, getattr(classifier, "activation", torch.tanh), classifier.out_proj)


def _bert_block(layer: Any) -> Block:
    attention = layer.attention.self
    return Block(
        query=attention.query,
        key=attention.key,
        value=attention.value,
        output=layer.attention.output.dense,
        heads=int(attention.num_attention_heads),
        attention_norm=layer.attention.output.LayerNorm,
        expand=layer.intermediate.dense,
        activation=layer.intermediate.intermediate_act_fn,
        contract=layer.output.dense,
        norm=layer.output.LayerNorm,
    )


def _distilbert_block(layer: Any) -> Block:
    return Block(
        query=layer.attention.q_lin,
        key=layer.attention.k_lin,
        value=layer.attention.v_lin,
        output=layer.attention.out_lin,
        heads=int(layer.attention.n_heads),
        attention_norm=layer.sa_layer_norm,
        expand=layer.ffn.lin1,
        activation=layer.ffn.activation,
        contract=layer.ffn.lin2,
        norm=layer.output_layer_norm,
    )


def _albert_block(layer: Any) -> Block:
    return Block(
        query=layer.attention.query,
        key=layer.attention.key,
        value=layer.attention.value,
        output=layer.attention.dense,
        heads=int(layer.attention.num_attention_heads),
        attention_norm=layer.attention.LayerNorm,
        expand=layer.ffn,
        activation=layer.activation,
        contract=layer.ffn_output,
        norm=layer.full_layer_layer_norm,
    )


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
