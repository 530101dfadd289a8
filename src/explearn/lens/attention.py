"""Attention as a model computes it, with its fused kernels.

Whatever a model rotates, groups, masks or adds first, its attention ends in one of two calls: torch's fused attention,
which never stores the matrix, or a softmax over explicit logits. `AttentionCalls` intercepts these calls and makes an
`Attention` from each. A method takes the part it needs: a row, a column, the mean over heads, or the whole matrix. The
model only gets temporary hooks, and its results do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from explearn.core.compute import at_least_float32
from explearn.core.errors import ParamsError, UnsupportedError
from explearn.lens.hooks import Hooks
from explearn.predictors.architectures import (
    ARCHITECTURES,
    architecture,
    blocks_in_order,
    by_torch,
    head_size,
    reads,
    unusual_build,
)
from explearn.predictors.encoding import Batch

if TYPE_CHECKING:
    from explearn.predictors.transformer import TransformerPredictor

Reduced = TypeVar("Reduced")

BLOCK_ELEMENTS = 2**18
"""Number of attention logits held at a time on a CPU, 1 MiB in float32, so that they stay in a core's cache."""

ALL = slice(None)


@dataclass(frozen=True, slots=True)
class Attention:
    """The attention of one layer in one forward pass; b = batch, h = heads, n = tokens, d = width of a head.

    Attributes:
        query: (b, h, n, d), already scaled. None if the model computes the probabilities explicitly.
        key: (b, h, n, d), repeated for each head of a group, or None as the query.
        value: as the key.
        mask: bool, (b or 1, h or 1, n, n), True where a query sees a key; None: each query sees all of `keys`.
        probabilities: (b, h, n, n) if the model computes them explicitly, else None.
        keys: bool, (b, n), False at padding; None if unknown: `mask` then includes the padding.
        reads: how much of each token's vector the head reads, (b, n); see `read_weights`.
        position: the token that it reads, (b,); None if it reads all alike.
    """

    query: Tensor | None = None
    key: Tensor | None = None
    value: Tensor | None = None
    mask: Tensor | None = None
    probabilities: Tensor | None = None
    keys: Tensor | None = None
    reads: Tensor | None = None
    position: Tensor | None = None

    def seen(self, texts: slice = ALL, heads: slice = ALL) -> Tensor | None:
        """Return which keys each query sees, bool, broadcastable to (texts, heads, n, n); None: all."""
        mask = self.mask
        if mask is not None and len(mask) > 1:
            mask = mask[texts]
        if mask is not None and mask.shape[1] > 1:
            mask = mask[:, heads]
        # Asking a GPU would wait for it.
        if self.keys is None or (self.keys.device.type == "cpu" and self.keys[texts].all()):
            return mask
        keys = self.keys[texts, None, None]
        if mask is None:
            return keys
        return mask & keys

    def matrix(self, texts: slice = ALL, heads: slice = ALL) -> Tensor:
        """Return probabilities, (texts, heads, n, n), row = query, at least float32; 0 for hidden keys."""
        if self.probabilities is not None:
            return at_least_float32(self.probabilities[texts, heads])
        assert self.query is not None and self.key is not None
        # Heads that are not contiguous are copied first: copying their transpose takes longer.
        logits = self.query[texts, heads].contiguous() @ self.key[texts, heads].contiguous().transpose(-1, -2)
        logits = at_least_float32(logits)
        seen = self.seen(texts, heads)
        if seen is None:
            return logits.softmax(-1)
        # Adding costs nothing in the backward pass. A mask may hide a whole row; a row of only -inf would give NaN.
        hidden = torch.zeros_like(seen, dtype=logits.dtype).masked_fill_(~seen, torch.finfo(torch.float32).min)
        return (logits + hidden).softmax(-1) * seen

    def result(self, matrix: Tensor) -> Tensor:
        """Return what the call returns with `matrix` as its probabilities: the context, or the probabilities."""
        if self.value is not None:
            return matrix.to(self.value.dtype) @ self.value
        assert self.probabilities is not None
        return matrix.to(self.probabilities.dtype)

    def head_mean(self) -> Tensor:
        """Return the mean over heads, (b, n, n)."""
        of_texts, _ = self._blocks()
        return torch.cat([self.matrix(texts).mean(1) for texts in of_texts])

    def row(self) -> Tensor:
        """Return the attention from the token that the head reads to each token, (b, n, h).

        If the head reads all tokens, this is the mean over them.
        """
        return self._reads(2)

    def row_and_column(self) -> Tensor:
        """Return `row`, then the attention from each token to the one that the head reads, (b, n, 2h); ExpNet eq. 1.

        If the head reads all tokens, the column is their mean. Values at padding have no meaning.
        """
        return self._reads(2, 3)

    def _reads(self, *axes: int) -> Tensor:
        """Return the attention from the tokens that the head reads (axis 2), or to them (axis 3), (b, n, axes h)."""
        assert self.reads is not None
        of_texts, of_heads = self._blocks()
        parts = []
        for texts in of_texts:
            sums: list[list[Tensor]] = [[] for _ in axes]
            for heads in of_heads:
                matrix = self.matrix(texts, heads)
                for found, axis in zip(sums, axes, strict=True):
                    found.append(self._read(matrix, texts, axis))
            parts.append(torch.cat([torch.cat(found, 1).transpose(1, 2) for found in sums], -1))
        return torch.cat(parts)

    def _read(self, matrix: Tensor, texts: slice, axis: int) -> Tensor:
        """Return the sum over an axis of a matrix, each token weighted by how much of it the head reads."""
        if self.position is not None:
            return matrix.take_along_dim(self.position[texts, None, None, None], axis).squeeze(axis)
        assert self.reads is not None
        # Not a matrix product: autocast would round it.
        reads = self.reads[texts, None, :].to(matrix)
        return (matrix * reads.unsqueeze(5 - axis)).sum(axis)

    def _blocks(self) -> tuple[list[slice], list[slice]]:
        """Return slices of the batch, and of the heads of a long text; small on a CPU."""
        whole = self.query
        if self.probabilities is not None:
            whole = self.probabilities
        assert whole is not None
        batch, heads, tokens, _ = whole.shape
        if whole.device.type != "cpu":
            return [ALL], [ALL]
        size = max(1, BLOCK_ELEMENTS // (heads * tokens**2))
        some = max(1, BLOCK_ELEMENTS // tokens**2)
        of_texts = [slice(start, start + size) for start in range(0, batch, size)]
        return of_texts, [slice(start, start + some) for start in range(0, heads, some)]


class AttentionCalls(TorchFunctionMode):
    """A mode that passes each attention call to `on_call`, whose return value, unless None, replaces the call's result.

    The result of a fused call is the context, (b, h, n, d); that of a softmax the probabilities, (b, h, n, n). Only
    calls in the thread that entered the mode are intercepted.
    """

    def __init__(self, on_call: Callable[[Attention], Tensor | None]) -> None:
        super().__init__()
        self.on_call = on_call

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is nn.functional.scaled_dot_product_attention:
            replaced = self.on_call(_fused_call(*args, **kwargs))
            if replaced is None:
                return func(*args, **kwargs)
            return replaced
        result = func(*args, **kwargs)
        if func in SOFTMAX and result.ndim == 4:
            replaced = self.on_call(Attention(probabilities=result))
            if replaced is not None:
                return replaced
        return result


SOFTMAX = (nn.functional.softmax, torch.softmax, Tensor.softmax)


def _fused_call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Attention:
    """Return the attention of a call to torch's scaled_dot_product_attention, without dropout."""
    if enable_gqa:
        groups = query.shape[1] // key.shape[1]
        key = key.repeat_interleave(groups, 1)
        value = value.repeat_interleave(groups, 1)
    mask = attn_mask
    if is_causal:
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()[None, None]
    elif mask is not None and mask.dtype != torch.bool:
        # Masks made by transformers hold 0 and the lowest number, or -inf.
        mask = mask > torch.finfo(mask.dtype).min / 2
    if scale is None:
        scale = query.shape[-1] ** -0.5
    return Attention(query * scale, key, value, mask)


def _projections(model: Any) -> Iterator[nn.Module]:
    """Yield the maps to queries and keys of each block, if the calls of attention do not show them as they are."""
    config = model.config
    parts = architecture(config).parts
    if parts is None:
        return
    if architecture(config).attention == "calls" or config._attn_implementation == "eager":
        for block in dict.fromkeys(blocks_in_order(model.base_model)):
            with unusual_build(config):
                yield from attrgetter(parts.query, parts.key)(block)


@contextmanager
def attention_layers(
    model: nn.Module, on_layer: Callable[[int, Attention], Tensor | None], layers: Sequence[int] | None = None
) -> Iterator[None]:
    """Pass the attention of some layers to `on_layer`, with the layer's number, in forward passes inside the block.

    Args:
        model: a sequence classifier, to be called with `attention_mask` and `input_ids` as keywords. Layers are counted
            in the order in which they run: ALBERT's shared layer counts once for each time it runs.
        on_layer: its return value, unless None, replaces the model's own (`AttentionCalls`).
        layers: indices from 0. None: all.

    Raises:
        UnsupportedError: the model's attention cannot be captured (`layer_count`), or is not computed by calls that can
            be intercepted.
    """
    config: Any = model.config
    count = layer_count(model)
    in_table = architecture(config).parts is not None
    wanted = range(count) if layers is None else layers
    calls = 0
    projected: list[Tensor] = []
    pass_fields: dict[str, Tensor] = {}

    def on_start(_module: nn.Module, _args: object, kwargs: dict[str, Tensor]) -> None:
        nonlocal calls
        calls = 0
        projected.clear()
        marks = {name: kwargs[name] for name in getattr(model, "marks", ()) if name in kwargs}
        batch = Batch((), kwargs["input_ids"], kwargs["attention_mask"], kwargs.get("token_type_ids"), marks)
        weights = read_weights(model, batch)
        pass_fields.update(keys=batch.attention_mask.bool(), reads=weights)
        if reads(model) != "mean":
            pass_fields.update(position=weights.argmax(-1))

    def on_projection(_module: nn.Module, _args: object, _kwargs: object, output: Tensor) -> None:
        # Layers that also project distances with these weights (DeBERTa) do so after the content.
        if len(projected) < 2:
            projected.append(output.view(*output.shape[:2], -1, head_size(config)).transpose(1, 2))

    def on_call(attention: Attention) -> Tensor | None:
        nonlocal calls
        layer = calls
        calls += 1
        if projected:
            query, key = projected
            attention = replace(attention, query=query * head_size(config) ** -0.5, key=key)
            projected.clear()
        if layer not in wanted:
            return None
        if in_table:
            # A block in the table attends to all tokens: its mask says no more than `keys`.
            attention = replace(attention, mask=None)
        return on_layer(layer, replace(attention, **pass_fields))

    def on_end(_module: nn.Module, _args: object, _kwargs: object, _output: object) -> None:
        if calls != count:
            raise UnsupportedError(
                f"this {config.model_type!r} model has {count} layers, and {calls} of them computed attention with "
                "torch's own functions; load it with attn_implementation 'sdpa' or 'eager'"
            )

    with Hooks() as hooks, AttentionCalls(on_call):
        hooks.before(model, on_start)
        hooks.after(model, on_end)
        for projection in _projections(model):
            hooks.after(projection, on_projection)
        yield


@contextmanager
def capture_attention(
    model: nn.Module, reduce: Callable[[Attention], Reduced], layers: Sequence[int] | None = None
) -> Iterator[dict[int, Reduced]]:
    """Reduce the attention of some layers in every forward pass inside the block: layer -> result.

    A second forward pass overwrites the first one's results. Arguments and errors are those of `attention_layers`.
    """
    results: dict[int, Reduced] = {}

    def on_layer(layer: int, attention: Attention) -> None:
        results[layer] = reduce(attention)

    with attention_layers(model, on_layer, layers):
        yield results


def reduced_attention(
    classifier: TransformerPredictor,
    batch: Batch,
    reduce: Callable[[Attention], Reduced],
    layers: Sequence[int] | None = None,
) -> tuple[Tensor, list[Reduced]]:
    """Classify a batch; return the logits, (b, C), and the reduced attention of some layers, one result for each."""
    with torch.inference_mode(), capture_attention(classifier.model, reduce, layers) as results, classifier.autocast():
        logits = classifier.model(**batch.model_inputs()).logits.float()
    return logits, [results[layer] for layer in layers or range(len(results))]


def layer_count(model: nn.Module) -> int:
    """Return the number of attention layers.

    Raises:
        UnsupportedError: the model's attention cannot be captured.
    """
    config: Any = model.config
    no_attention = getattr(model, "no_attention", "")
    if no_attention:
        raise UnsupportedError(no_attention)
    if architecture(config).attention is None:
        supported = ", ".join(sorted(name for name, entry in ARCHITECTURES.items() if entry.attention))
        raise UnsupportedError(
            f"attention of a {config.model_type!r} model cannot be captured; supported: {supported}; input_x_gradient "
            "works for any encoder"
        )
    if not by_torch(config):
        raise UnsupportedError(
            f"attention by {config._attn_implementation!r} cannot be captured; load this {config.model_type!r} model "
            "with attn_implementation 'sdpa' or 'eager'"
        )
    if getattr(config, "is_decoder", False) and not architecture(config).causal:
        raise UnsupportedError(
            f"this {config.model_type!r} model is a decoder (is_decoder), whose tokens see only those before them; "
            "attention is captured from encoders"
        )
    # ALBERT may repeat groups of several layers.
    return int(config.num_hidden_layers) * int(getattr(config, "inner_group_num", 1))


def resolve_layer(model: nn.Module, layer: int) -> int:
    """Return a layer's index from 0, for an index that may count from the end.

    Raises:
        ParamsError: there is no such layer.
        UnsupportedError: as `layer_count`.
    """
    count = layer_count(model)
    if not -count <= layer < count:
        raise ParamsError(f"layer {layer} does not exist: the model has {count}, 0 to {count - 1} or -{count} to -1")
    return layer % count


def read_weights(model: Any, batch: Batch) -> Tensor:
    """Return how much of each token the head reads, float32, (batch, tokens): 1 at one token, or 1 / n at each.

    The last token is, as in transformers, the last one whose id is not the padding's.
    """
    place, ids = reads(model), batch.input_ids
    if place == "mean":
        real = batch.attention_mask.float()
        return real / real.sum(-1, keepdim=True)
    if place == "marked":
        position = batch.marks["classified"].long().argmax(1)
    elif place == "first":
        position = torch.zeros_like(ids[:, 0])
    else:
        order = torch.arange(ids.shape[1], device=ids.device)
        position = (order * (ids != int(model.config.pad_token_id))).argmax(-1)
    weights = torch.zeros(ids.shape, device=ids.device)
    return weights.scatter_(1, position[:, None], 1.0)
