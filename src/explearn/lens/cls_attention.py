"""Attention from and to the [CLS] token in many layers of one forward pass, at little more than the pass's own price.

The row A[h, 0, :] takes one query a layer. The column A[h, :, 0] needs each row's normaliser, a log-sum-exp over all
keys, which is most of what attention costs. A fused kernel computes these normalisers anyway and returns them, so the
model's own calls of scaled_dot_product_attention are watched, and made such that nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from explearn.core.errors import UnsupportedError
from explearn.lens.capture import capture_attention, cls_row_and_column, layer_count
from explearn.lens.fused import additive, flash_on_cpu, runs_flash_on_cpu
from explearn.lens.patterns import BLOCK_ELEMENTS
from explearn.model.architectures import architecture


@torch.inference_mode()
def run_with_cls_attention(
    model: Any, inputs: Mapping[str, torch.Tensor], layers: Sequence[int]
) -> tuple[Any, torch.Tensor]:
    """Run a sequence classifier once, and take the attention from and to the first token in some of its layers.

    Args:
        inputs: keyword arguments of the model; `attention_mask`, (batch, tokens), is 1 at real tokens.
        layers: indices from 0, in the order wanted.

    Returns the model's output, bit for bit that of a plain call, and (batch, tokens, layers * 2 * heads), float32 or,
    in a float64 model, float64: for each layer A[h, 0, j] for every head h, then A[h, j, 0]; ExpNet eq. 1. Nothing
    attends to padding; what padding attends to holds no meaning.

    Raises UnsupportedError (see `layer_count`).
    """
    count = layer_count(model)
    if model.config._attn_implementation != "sdpa" or architecture(model.config).attention == "calls":
        with capture_attention(model, cls_row_and_column, layers) as captured:
            output = model(**inputs)
        return output, torch.cat([captured.of(layer) for layer in layers], dim=-1)
    with _ClsAttention(frozenset(layers)) as watched:
        output = model(**inputs)
    if watched.calls != count:
        raise UnsupportedError(
            f"attention of this {model.config.model_type!r} model cannot be captured: it ran "
            f"{watched.calls} times in a pass; expected {count}, once a layer"
        )
    return output, torch.cat([watched.found[layer] for layer in layers], dim=-1)


class _ClsAttention(TorchFunctionMode):
    """Sees the calls of scaled_dot_product_attention made inside the block, the layers of one pass in their order.

    calls: how many there were. found: of each layer wanted, (batch, tokens, 2 heads).
    """

    def __init__(self, layers: frozenset[int]) -> None:
        super().__init__()
        self.layers, self.calls = layers, 0
        self.found: dict[int, torch.Tensor] = {}
        self.blocks: torch.Tensor | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is not scaled_dot_product_attention:
            return func(*args, **kwargs)
        layer = self.calls
        self.calls += 1
        if layer not in self.layers:
            return func(*args, **kwargs)
        return self._watch(layer, func, *args, **kwargs)

    def _watch(
        self,
        layer: int,
        func: Callable[..., torch.Tensor],
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        if is_causal or enable_gqa:
            raise UnsupportedError("attention that is causal, or whose heads share keys, cannot be captured")
        bias = additive(attn_mask, query.dtype)
        if runs_flash_on_cpu(query, key, value, bias, dropout_p, scale):
            output, normalisers = flash_on_cpu(query, key, value, dropout_p, False, attn_mask=bias, scale=scale)
        else:
            output = func(query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, scale=scale)
            normalisers = _normalisers(query, key, bias, scale)
        self.found[layer] = _row_and_column(query, key, bias, normalisers, scale, self._blocks(query, normalisers))
        return output

    def _blocks(self, query: torch.Tensor, normalisers: torch.Tensor) -> torch.Tensor:
        """Zeros, (batch, heads, d, heads), for `_with_each_head`; those of the layer before where they fit."""
        batch, heads, _, size = query.shape
        dtype = torch.float64 if normalisers.dtype == torch.float64 else torch.float32
        shape, kept = (batch, heads, size, heads), self.blocks
        # Layers may be on several devices.
        if kept is None or (kept.shape, kept.dtype, kept.device) != (shape, dtype, query.device):
            self.blocks = kept = query.new_zeros(shape, dtype=dtype)
        return kept


def _scale(query: torch.Tensor, scale: float | None) -> float:
    return float(query.shape[-1] ** -0.5) if scale is None else scale


def _normalisers(
    query: torch.Tensor, key: torch.Tensor, bias: torch.Tensor | None, scale: float | None
) -> torch.Tensor:
    """log sum_j exp(scale q_i k_j + bias_ij), (batch, heads, tokens), at least float32.

    A CPU holds some BLOCK_ELEMENTS logits at a time; a GPU takes the batch at once.
    """
    batch, heads, tokens, _ = query.shape
    size = max(1, BLOCK_ELEMENTS // (heads * tokens**2)) if query.device.type == "cpu" else batch
    if bias is not None:
        bias = bias.expand(batch, -1, -1, -1)
    parts = []
    for start in range(0, batch, size):
        block = slice(start, start + size)
        logits = (query[block] * _scale(query, scale)) @ key[block].transpose(-1, -2)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        parts.append((logits if bias is None else logits + bias[block]).logsumexp(-1))
    return torch.cat(parts)


def _row_and_column(
    query: torch.Tensor,
    key: torch.Tensor,
    bias: torch.Tensor | None,
    normalisers: torch.Tensor,
    scale: float | None,
    blocks: torch.Tensor,
) -> torch.Tensor:
    """A[h, 0, j] and A[h, j, 0], (batch, tokens, 2 heads)."""
    normalisers = normalisers.to(blocks.dtype)
    factor = _scale(query, scale)
    with torch.autocast(query.device.type, enabled=False):
        row = _with_each_head(key.to(blocks.dtype), query[:, :, 0] * factor, blocks)
        column = _with_each_head(query.to(blocks.dtype), key[:, :, 0] * factor, blocks)
    if bias is not None:
        row += bias[:, :, 0].transpose(1, 2)
        column += bias[..., 0].transpose(1, 2)
    batch, tokens, heads = row.shape
    both = row.new_empty(batch, tokens, 2 * heads)
    torch.sub(row, normalisers[:, :, :1].transpose(1, 2), out=both[..., :heads])
    torch.sub(column, normalisers.transpose(1, 2), out=both[..., heads:])
    return both.exp_()


def _with_each_head(vectors: torch.Tensor, one: torch.Tensor, blocks: torch.Tensor) -> torch.Tensor:
    """The product of every token's vector with one vector, head by head.

    vectors: (batch, heads, tokens, d). one: (batch, heads, d). Returns (batch, tokens, heads).

    As a product with a block-diagonal matrix: the heads of a token lie side by side in memory, and taking them apart
    for a product each costs more than the zeros do. Only the blocks on the diagonal of `blocks` are ever written.
    """
    batch, heads, tokens, size = vectors.shape
    blocks.diagonal(dim1=1, dim2=3).copy_(one.transpose(1, 2))
    return vectors.transpose(1, 2).reshape(batch, tokens, heads * size) @ blocks.view(batch, heads * size, heads)
