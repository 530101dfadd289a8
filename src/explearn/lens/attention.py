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
from typing import Any, TypeVar, cast

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from explearn.core.compute import at_least_float32
from explearn.core.errors import ParamsError, UnsupportedError
from explearn.lens.threads import here_only, hooked
from explearn.predictors.architectures import (
    ARCHITECTURES,
    architecture,
    blocks_in_order,
    head_size,
    is_captured,
    reads,
    unusual_build,
)
from explearn.predictors.encoding import Batch
from explearn.predictors.heads.token_classification import marked_position
from explearn.predictors.transformer import TransformerPredictor

Reduced = TypeVar("Reduced")

BLOCK_ELEMENTS = 2**18
"""Number of attention logits held at a time on a CPU, 1 MiB in float32, so that they stay in a core's cache."""


@dataclass(frozen=True, slots=True)
class Attention:
    """The attention of one layer in one forward pass; b = batch, h = heads, n = tokens, d = width of a head.

    Attributes:
        query, key, value: (b, h, n, d), the query already scaled, keys and values repeated for each head of a group.
            None if the model computes the probabilities explicitly.
        mask: bool, (b or 1, h or 1, n, n), True where a query sees a key; None: each query sees all of `keys`.
        probabilities: (b, h, n, n) if the model computes them explicitly, else None.
        keys: bool, (b, n), False at padding; None if unknown: `mask` then includes the padding.
        padded: whether `keys` hides any token.
        reads: how much of each token's vector the head reads, (b, n); see `read_weights`.
    """

    query: torch.Tensor | None = None
    key: torch.Tensor | None = None
    value: torch.Tensor | None = None
    mask: torch.Tensor | None = None
    probabilities: torch.Tensor | None = None
    keys: torch.Tensor | None = None
    padded: bool = True
    reads: torch.Tensor | None = None

    def seen(self, texts: slice = slice(None)) -> torch.Tensor | None:
        """Return which keys each query sees, bool, broadcastable to (texts, h, n, n); None: all."""
        mask = self.mask if self.mask is None or len(self.mask) == 1 else self.mask[texts]
        keys = self.keys[texts, None, None] if self.keys is not None and self.padded else None
        return keys if mask is None else mask if keys is None else mask & keys

    def matrix(self, texts: slice = slice(None)) -> torch.Tensor:
        """Return probabilities of some texts, (texts, h, n, n), row = query, at least float32; 0 for hidden keys."""
        if self.probabilities is not None:
            return at_least_float32(self.probabilities[texts])
        seen, logits = self.seen(texts), self._logits(texts)
        if seen is None:
            return logits.softmax(-1)
        # Adding costs nothing in the backward pass. A row of only -inf, which masks may have, would give NaN.
        least = float("-inf") if self.mask is None else torch.finfo(torch.float32).min
        probabilities = (logits + torch.zeros_like(seen, dtype=logits.dtype).masked_fill_(~seen, least)).softmax(-1)
        return probabilities if self.mask is None else probabilities * seen

    def head_mean(self) -> torch.Tensor:
        """Return the mean over heads, (b, n, n)."""
        return torch.cat([self.matrix(texts).mean(1) for texts in self._blocks()])

    def row(self) -> torch.Tensor:
        """Return the attention from the token that the head reads to each token, (b, n, h).

        If the head reads all tokens, this is the mean over them.
        """
        return torch.cat([self._read(self.matrix(texts), texts, 2) for texts in self._blocks()])

    def row_and_column(self) -> torch.Tensor:
        """Return `row`, then the attention from each token to the one that the head reads, (b, n, 2h); ExpNet eq. 1.

        If the head reads all tokens, the column is their mean. Values at padding have no meaning.
        """
        parts = []
        for texts in self._blocks():
            matrix = self.matrix(texts)
            parts.append(torch.cat([self._read(matrix, texts, axis) for axis in (2, 3)], -1))
        return torch.cat(parts)

    def _read(self, matrix: torch.Tensor, texts: slice, axis: int) -> torch.Tensor:
        """Return the attention from the tokens that the head reads (axis 2), or to them (axis 3), (texts, n, h)."""
        assert self.reads is not None
        # Not a matrix product: autocast would round it.
        reads = self.reads[texts, None, :].to(matrix).unsqueeze(5 - axis)
        return (matrix * reads).sum(axis).transpose(1, 2)

    def _logits(self, texts: slice) -> torch.Tensor:
        """Return Q K^T, (texts, h, n, n), at least float32."""
        assert self.query is not None and self.key is not None
        # Heads that are not contiguous are copied first: copying their transpose takes longer.
        return at_least_float32(self.query[texts].contiguous() @ self.key[texts].contiguous().transpose(-1, -2))

    def _blocks(self) -> list[slice]:
        """Return slices of the batch, small on a CPU."""
        whole = self.query if self.probabilities is None else self.probabilities
        assert whole is not None
        batch, heads, tokens, _ = whole.shape
        size = max(1, BLOCK_ELEMENTS // (heads * tokens**2)) if whole.device.type == "cpu" else batch
        return [slice(start, start + size) for start in range(0, batch, size)]


class AttentionCalls(TorchFunctionMode):
    """A mode that passes each attention call to `on_call`, whose return value, unless None, replaces the call's result.

    The result of a fused call is the context, (b, h, n, d); that of a softmax the probabilities, (b, h, n, n). Only
    calls in the thread that entered the mode are intercepted.

    Args:
        wanted: decides for each call whether `on_call` gets it.
    """

    def __init__(self, on_call: Callable[[Attention], torch.Tensor | None], wanted: Callable[[], bool]) -> None:
        super().__init__()
        self.on_call, self.wanted = on_call, wanted

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is nn.functional.scaled_dot_product_attention:
            if not self.wanted():
                return func(*args, **kwargs)
            other = self.on_call(_fused_call(*args, **kwargs))
            return func(*args, **kwargs) if other is None else other
        result = func(*args, **kwargs)
        if func not in _SOFTMAX or result.ndim != 4 or not self.wanted():
            return result
        other = self.on_call(Attention(probabilities=result))
        return result if other is None else other


_SOFTMAX = (nn.functional.softmax, torch.softmax, torch.Tensor.softmax)


def _fused_call(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Attention:
    """Return the attention of a call to torch's scaled_dot_product_attention, without dropout."""
    if enable_gqa:
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    mask = attn_mask
    if is_causal:
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()[None, None]
    elif mask is not None and mask.dtype != torch.bool:
        # Masks made by transformers hold 0 and the lowest number, or -inf.
        mask = mask > torch.finfo(mask.dtype).min / 2
    return Attention(query * (query.shape[-1] ** -0.5 if scale is None else scale), key, value, mask)


@contextmanager
def attention_layers(
    model: nn.Module, on_layer: Callable[[int, Attention], torch.Tensor | None], layers: Sequence[int] | None = None
) -> Iterator[None]:
    """Pass the attention of some layers to `on_layer`, with the layer's number, in forward passes inside the block.

    Args:
        model: a sequence classifier, to be called with `attention_mask` and `input_ids` as keywords. Layers are counted
            in the order in which they run: ALBERT's shared layer counts once for each time it runs.
        on_layer: its return value, unless None, replaces the model's own (`AttentionCalls`).
        layers: indices from 0 (None: all).

    Raises UnsupportedError for a model whose attention cannot be captured (`layer_count`), or is not computed by calls
    that can be intercepted.
    """
    count, whole = layer_count(model), cast(Any, model)
    config = whole.config
    parts = architecture(config).parts
    wanted = set(range(count) if layers is None else layers)
    seen: dict[str, Any] = {"calls": 0}
    projected: list[torch.Tensor] = []

    def on_model(_module: nn.Module, _args: object, kwargs: dict[str, torch.Tensor]) -> None:
        keys = kwargs["attention_mask"].bool()
        batch = Batch((), kwargs["input_ids"], kwargs["attention_mask"], kwargs.get("token_type_ids"))
        seen.update(calls=0, keys=keys, padded=not keys.all(), reads=read_weights(model, batch))

    def on_projection(_module: nn.Module, _args: object, output: torch.Tensor) -> None:
        # Layers that also project distances with these weights (DeBERTa) do so after the content.
        if len(projected) < 2 and seen["calls"] in wanted:
            projected.append(output.view(*output.shape[:2], -1, head_size(config)).transpose(1, 2))

    def is_wanted() -> bool:
        seen["calls"] += 1
        return seen["calls"] - 1 in wanted

    def on_call(attention: Attention) -> torch.Tensor | None:
        query, key = attention.query, attention.key
        if projected:
            query, key = projected[0] * head_size(config) ** -0.5, projected[1]
            projected.clear()
        # A known block (`BlockParts`) attends to all tokens: its mask says no more than `keys`.
        mask = attention.mask if parts is None else None
        known = {name: seen[name] for name in ("keys", "padded", "reads")}
        return on_layer(seen["calls"] - 1, replace(attention, query=query, key=key, mask=mask, **known))

    def on_end(_module: nn.Module, _args: object, _output: object) -> None:
        if seen["calls"] != count:
            raise UnsupportedError(
                f"this {config.model_type!r} model has {count} layers, and {seen['calls']} of them computed attention "
                "with torch's own functions; load it with attn_implementation 'sdpa' or 'eager'"
            )

    handles = [
        model.register_forward_pre_hook(here_only(on_model), with_kwargs=True),
        model.register_forward_hook(here_only(on_end)),
    ]
    if parts is not None and (architecture(config).attention == "calls" or config._attn_implementation == "eager"):
        with unusual_build(config):
            linears = [m for b in blocks_in_order(whole.base_model) for m in attrgetter(parts.query, parts.key)(b)]
        handles += [m.register_forward_hook(here_only(on_projection)) for m in dict.fromkeys(linears)]
    with hooked(handles), AttentionCalls(on_call, is_wanted):
        yield


@contextmanager
def capture_attention(
    model: nn.Module, reduce: Callable[[Attention], Reduced], layers: Sequence[int] | None = None
) -> Iterator[dict[int, Reduced]]:
    """Reduce the attention of some layers in every forward pass inside the block: layer -> result.

    A second forward pass overwrites the first one's results. Arguments and errors are those of `attention_layers`.
    """
    kept: dict[int, Reduced] = {}
    with attention_layers(model, lambda layer, attention: kept.update({layer: reduce(attention)}), layers):
        yield kept


def reduced_attention(
    classifier: TransformerPredictor,
    batch: Batch,
    reduce: Callable[[Attention], Reduced],
    layers: Sequence[int] | None = None,
) -> tuple[torch.Tensor, list[Reduced]]:
    """Classify a batch; return the logits, (b, C), and the reduced attention of some layers, one result for each."""
    with torch.inference_mode(), capture_attention(classifier.model, reduce, layers) as kept, classifier.autocast():
        logits = classifier.model(**batch.model_inputs()).logits.float()
    return logits, [kept[layer] for layer in layers or range(len(kept))]


def layer_count(model: nn.Module) -> int:
    """Return the number of attention layers; raise UnsupportedError if the model's attention cannot be captured."""
    config: Any = model.config
    if not is_captured(architecture(config)):
        known = ", ".join(sorted(name for name, entry in ARCHITECTURES.items() if is_captured(entry)))
        raise UnsupportedError(
            f"attention of a {config.model_type!r} model cannot be captured; supported: {known}; input_x_gradient "
            "works for any encoder"
        )
    if getattr(config, "is_decoder", False) and not architecture(config).causal:
        raise UnsupportedError(
            f"this {config.model_type!r} model is a decoder (is_decoder), whose tokens see only those before them; "
            "attention is captured from encoders"
        )
    # ALBERT may repeat groups of several layers.
    return int(config.num_hidden_layers) * int(getattr(config, "inner_group_num", 1))


def resolve_layer(model: nn.Module, layer: int) -> int:
    """Turn a layer index that may count from the end into one from 0; raise ParamsError if there is no such layer."""
    count = layer_count(model)
    if not -count <= layer < count:
        raise ParamsError(f"layer {layer} does not exist: the model has {count}, 0 to {count - 1} or -{count} to -1")
    return layer % count


def read_weights(model: Any, batch: Batch) -> torch.Tensor:
    """Return how much of each token the head reads, float32, (batch, tokens): 1 at one token, or 1 / n at each.

    The last token is, as in transformers, the last one whose id is not the padding's.
    """
    place, ids = reads(model), batch.input_ids
    if place == "mean":
        real = batch.attention_mask.float()
        return real / real.sum(-1, keepdim=True)
    if place == "marked":
        assert batch.token_type_ids is not None
        position = marked_position(batch.token_type_ids)
    elif place == "first":
        position = torch.zeros_like(ids[:, 0])
    else:
        order = torch.arange(ids.shape[1], device=ids.device)
        position = (order * (ids != int(model.config.pad_token_id))).argmax(-1)
    weights = torch.zeros(ids.shape, device=ids.device)
    return weights.scatter_(1, position[:, None], 1.0)
