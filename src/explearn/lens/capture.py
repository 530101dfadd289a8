"""Attention weights without giving up fused attention kernels.

A fused kernel (SDPA) never stores the attention matrix. Where a method needs part of it, that part is computed again
from the layer's queries and keys, which forward hooks on the two projections see; the model itself runs unchanged.
Where attention is more than a softmax of two projections' products (rotary positions, grouped keys, causal and local
masks, position biases), queries, keys and mask are those of the model's own attention call (`patterns`).
The context manager removes its hooks at the end, also after an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Generic, TypeVar

import torch
from torch import nn

from explearn.core.errors import ParamsError, UnsupportedError
from explearn.lens.patterns import BLOCK_ELEMENTS, AttentionCalls, Call, Pattern
from explearn.lens.threads import here_only
from explearn.model.architectures import (
    architecture,
    attention_captured,
    blocks_in_order,
    head_size,
    is_captured,
    reads,
    unusual_build,
)
from explearn.model.encoding import Batch

Reduced = TypeVar("Reduced")

Mask = torch.Tensor | Pattern
"""Which keys are seen: bool, (batch, tokens), False at padding; a Pattern where more than padding hides keys from
queries, or another token than the first is read."""

Reducer = Callable[[torch.Tensor, torch.Tensor, Any], Reduced]
"""(queries, keys, mask) -> what is kept of one layer's attention.

queries: already scaled, keys: both (batch, heads, tokens, head size); mask: see Mask. Both are None where a model whose
projections are not known (`architectures`) writes its attention out, which then is in the Pattern.
"""


@dataclass(slots=True)
class Captured(Generic[Reduced]):
    """What was kept of each layer, filled while the model runs; `layers[l]` is None for layers not asked for."""

    layers: list[Reduced | None]
    calls: int = 0
    mask: torch.Tensor | None = None
    query: torch.Tensor | None = field(default=None, repr=False)

    def of(self, layer: int) -> Reduced:
        """The result of one layer; raises RuntimeError when the model has not run it."""
        kept = self.layers[layer]
        if kept is None:
            raise RuntimeError(f"layer {layer} was not captured; run the model inside the context manager")
        return kept


def layer_count(model: nn.Module) -> int:
    """Number of attention layers; raises UnsupportedError for architectures whose attention cannot be captured."""
    config: Any = model.config
    # Asked for each batch and layer: no list of all types is made but for the refusal.
    if not is_captured(architecture(config)):
        raise UnsupportedError(
            f"attention of a {config.model_type!r} model cannot be captured; supported: "
            f"{', '.join(attention_captured())}; input_x_gradient works for any encoder"
        )
    if getattr(config, "is_decoder", False) and not architecture(config).causal:
        raise UnsupportedError(
            f"this {config.model_type!r} model is a decoder (is_decoder), whose tokens see only those before them; "
            "attention is captured from encoders"
        )
    # ALBERT may repeat groups of several layers.
    return int(config.num_hidden_layers) * int(getattr(config, "inner_group_num", 1))


def resolve_layer(model: nn.Module, layer: int) -> int:
    """A layer index from 0, from one that may count from the end; raises ParamsError when there is no such layer."""
    count = layer_count(model)
    if not isinstance(layer, int):
        raise ParamsError(f"layer: got {layer!r}; expected a whole number")
    if not -count <= layer < count:
        raise ParamsError(f"layer {layer} does not exist: the model has {count}, 0 to {count - 1} or -{count} to -1")
    return layer % count


def _projections(model: nn.Module) -> list[tuple[nn.Module, nn.Module, int]]:
    """(query projection, key projection, heads) of each block; of blocks that share their weights, once."""
    whole: Any = model
    parts = architecture(whole.config).parts
    assert parts is not None
    with unusual_build(whole.config):
        find = attrgetter(parts.query, parts.key, parts.heads)
        found = [find(block) for block in dict.fromkeys(blocks_in_order(whole.base_model))]
    return [(query, key, int(heads)) for query, key, heads in found]


@contextmanager
def capture_attention(
    model: nn.Module, reduce: Reducer[Reduced], layers: Sequence[int] | None = None, keep_graph: bool = False
) -> Iterator[Captured[Reduced]]:
    """Reduce the attention of some layers of every forward pass made inside the block.

    Args:
        model: a sequence classifier. Layers are counted in the order in which they run, so that ALBERT's shared layer
            counts once for each time it runs.
        reduce: what to keep of a layer; called as soon as the layer's keys exist.
        layers: indices from 0 (None: all).
        keep_graph: leave queries and keys in autograd's graph, to train through what is reduced.

    The model must be called with `attention_mask` as a keyword. A second forward pass overwrites the first's results.
    Raises UnsupportedError (see `layer_count`).
    """
    count = layer_count(model)
    wanted = set(range(count) if layers is None else layers)
    captured: Captured[Reduced] = Captured(layers=[None] * count)
    whole: Any = model
    if architecture(whole.config).attention == "calls":
        with _capture_calls(model, reduce, wanted, captured, keep_graph):
            yield captured
        return
    handles = []

    def on_model(_module: nn.Module, _args: object, kwargs: dict[str, torch.Tensor]) -> None:
        captured.calls = 0
        captured.mask = kwargs["attention_mask"].bool()

    def on_query(_module: nn.Module, _inputs: object, output: torch.Tensor) -> None:
        captured.query = output if captured.calls in wanted else None

    def on_key(heads: int) -> Callable[[nn.Module, object, torch.Tensor], None]:
        def hook(_module: nn.Module, _inputs: object, output: torch.Tensor) -> None:
            layer = captured.calls
            captured.calls += 1
            if captured.query is None or captured.mask is None:
                return
            head_size = output.shape[-1] // heads
            query, key = (
                (t if keep_graph else t.detach()).view(*t.shape[:2], heads, head_size).transpose(1, 2)
                for t in (captured.query, output)
            )
            captured.query = None
            captured.layers[layer] = reduce(query * head_size**-0.5, key, captured.mask)

        return hook

    try:
        handles.append(model.register_forward_pre_hook(here_only(on_model), with_kwargs=True))
        for query, key, heads in _projections(model):
            handles.append(query.register_forward_hook(here_only(on_query)))
            handles.append(key.register_forward_hook(here_only(on_key(heads))))
        yield captured
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _capture_calls(
    model: nn.Module, reduce: Reducer[Reduced], wanted: set[int], captured: Captured[Reduced], keep_graph: bool
) -> Iterator[None]:
    """`capture_attention` at the model's own attention calls."""
    whole: Any = model
    position: list[torch.Tensor | None] = []
    whole_texts: list[bool] = []
    projected: list[torch.Tensor] = []
    heads, size = int(whole.config.num_attention_heads), head_size(whole.config)

    def on_model(_module: nn.Module, _args: object, kwargs: dict[str, torch.Tensor]) -> None:
        captured.calls = 0
        captured.mask = kwargs["attention_mask"].bool()
        whole_texts[:] = [bool(captured.mask.all())]
        position[:] = [read_position(whole.config, kwargs["input_ids"])]

    def on_projection(_module: nn.Module, _inputs: object, output: torch.Tensor) -> None:
        # Layers that project distances with the same weights (DeBERTa) do so after the content.
        if len(projected) < 2 and captured.calls in wanted:
            projected.append(output.view(*output.shape[:2], heads, size).transpose(1, 2))

    def wanted_now() -> bool:
        layer = captured.calls
        captured.calls += 1
        return layer in wanted and captured.mask is not None

    def on_call(call: Call) -> None:
        assert captured.mask is not None
        query, key = call.query, call.key
        if query is None and projected:
            query, key = projected[0] * size**-0.5, projected[1]
            projected.clear()
        found = [t if t is None or keep_graph else t.detach() for t in (query, key, call.attention)]
        queries: Any = found[0]
        keys: Any = found[1]
        # Without a mask the kernel has summed over padding, too.
        sums = call.normalisers if call.mask is not None or whole_texts[0] else None
        pattern = Pattern(captured.mask, position[0], call.mask, found[2], sums)
        captured.layers[captured.calls - 1] = reduce(queries, keys, pattern)

    handles = [model.register_forward_pre_hook(here_only(on_model), with_kwargs=True)]
    try:
        if (parts := architecture(whole.config).parts) is not None:
            with unusual_build(whole.config):
                for block in blocks_in_order(whole.base_model):
                    for linear in attrgetter(parts.query, parts.key)(block):
                        handles.append(linear.register_forward_hook(here_only(on_projection)))
        with AttentionCalls(on_call, wanted_now, normalisers=not keep_graph):
            yield
    finally:
        for handle in handles:
            handle.remove()


def read_position(config: Any, input_ids: torch.Tensor) -> torch.Tensor | None:
    """The token that a classifier's head reads, int64, (batch,); None where it reads the mean over all tokens.

    The last token is, as in transformers, the last whose id is not the padding's.
    """
    said = reads(config)
    if said == "mean":
        return None
    if said == "first":
        return torch.zeros_like(input_ids[:, 0])
    order = torch.arange(input_ids.shape[1], device=input_ids.device)
    last: torch.Tensor = (order * (input_ids != int(config.pad_token_id))).argmax(-1)
    return last


def read_weights(config: Any, batch: Batch) -> torch.Tensor:
    """How much of each token's vector the head reads, float32, (batch, tokens): 1 at one token, or 1 / n at all."""
    position = read_position(config, batch.input_ids)
    if position is None:
        real = batch.attention_mask.float()
        return real / real.sum(-1, keepdim=True)
    weights = torch.zeros(batch.input_ids.shape, device=batch.input_ids.device)
    return weights.scatter_(1, position[:, None], 1.0)


def _scores(query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Attention logits, at least float32, (..., queries, keys), with -inf where `mask` (..., keys) is False."""
    scores = query @ key.transpose(-1, -2)
    scores = scores if scores.dtype == torch.float64 else scores.float()
    return scores.masked_fill_(~mask[..., None, :], float("-inf"))


def _reduce_matrices(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor, reduce: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Apply `reduce` to the (queries, keys) logits of every head and text without holding them all.

    Returns (batch, heads, ...). On a CPU some BLOCK_ELEMENTS logits exist at a time; a GPU takes the batch at once.
    """
    batch, heads, tokens, _ = query.shape
    flat_query, flat_key = query.flatten(0, 1), key.flatten(0, 1)
    flat_mask = mask[:, None].expand(batch, heads, tokens).flatten(0, 1)
    size = max(1, BLOCK_ELEMENTS // tokens**2) if query.device.type == "cpu" else batch * heads
    parts = [
        reduce(_scores(flat_query[i : i + size], flat_key[i : i + size], flat_mask[i : i + size]))
        for i in range(0, batch * heads, size)
    ]
    joined = torch.cat(parts)
    return joined.view(batch, heads, *joined.shape[1:])


def cls_row(query: torch.Tensor, key: torch.Tensor, mask: Mask) -> torch.Tensor:
    """Attention from the token that the head reads (the first, in most encoders) to each, (batch, heads, tokens)."""
    if isinstance(mask, Pattern):
        return mask.row(query, key)
    return _scores(query[:, :, :1], key, mask[:, None]).softmax(-1).squeeze(2)


def cls_row_and_column(query: torch.Tensor, key: torch.Tensor, mask: Mask) -> torch.Tensor:
    """Attention from the token that is read (here the first) to each token, and from each to it, head by head.

    Returns float32 (float64 for float64 inputs), shape (batch, tokens, 2 heads): A[h, 0, j] for every head h, then
    A[h, j, 0]; ExpNet eq. 1. Positions of padding hold no meaning.

    The row takes one query. The column needs each row's normaliser, a log-sum-exp over its keys, but no row itself. In
    a causal model the column is 0 but at the token that is read (see `Pattern.row_and_column`).
    """
    if isinstance(mask, Pattern):
        return mask.row_and_column(query, key)
    normalisers = _reduce_matrices(query, key, mask, lambda scores: scores.logsumexp(-1))
    to_first = (query @ key[:, :, :1].transpose(-1, -2)).squeeze(-1).to(normalisers.dtype)
    column = (to_first - normalisers).exp_()
    return torch.cat([cls_row(query, key, mask), column], dim=1).transpose(1, 2)


def cls_row_mean(query: torch.Tensor, key: torch.Tensor, mask: Mask) -> torch.Tensor:
    """Mean over heads of the attention from the token that is read to each, shape (batch, tokens)."""
    return cls_row(query, key, mask).mean(1)


def head_mean(query: torch.Tensor, key: torch.Tensor, mask: Mask) -> torch.Tensor:
    """Mean over heads of the attention matrix, shape (batch, queries, keys)."""
    if isinstance(mask, Pattern):
        return mask.head_mean(query, key)
    batch, heads, tokens, _ = query.shape
    size = max(1, BLOCK_ELEMENTS // (heads * tokens**2)) if query.device.type == "cpu" else batch
    blocks = (slice(start, start + size) for start in range(0, batch, size))
    return torch.cat([_scores(query[b], key[b], mask[b, None]).softmax(-1).mean(1) for b in blocks])
