"""Attention as a model computes it: the calls of torch's attention and softmax in a forward pass, and who sees whom.

Rotary positions, grouped keys, causal and local masks and position biases all end in one of two calls: torch's fused
attention, or a softmax over written-out logits. `AttentionCalls` sees these calls of its own thread while it is
entered; nothing is set on the model, and the model's own results go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from explearn.lens.fused import additive, flash_on_cpu, runs_flash_on_cpu

BLOCK_ELEMENTS = 2**18
"""Attention logits held at a time on a CPU, 1 MiB in float32: a block that stays in a core's cache."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Which keys each query of one layer sees, and which token the head reads; b = batch, h = heads, n = tokens.

    Attributes:
        keys: bool, (b, n), False at padding.
        position: int64, (b,), the token whose vector the head reads; None where it reads the mean over all tokens.
        mask: bool, (b or 1, h or 1, n, n), True where a query sees a key; None where each sees all of `keys`.
        attention: probabilities (b, h, n, n) where the model computes them itself; None where they follow from queries
            and keys.
        normalisers: each query's log-sum-exp over the keys that it sees, (b, h, n), where the model's own kernel gave
            them; they have no gradient. What stands at a query that sees no key holds no meaning.
    """

    keys: torch.Tensor
    position: torch.Tensor | None
    mask: torch.Tensor | None = None
    attention: torch.Tensor | None = None
    normalisers: torch.Tensor | None = None

    @property
    def visible(self) -> torch.Tensor:
        """Which keys each query sees in any head, bool, (b, n, n)."""
        every = self.keys[:, None, :].expand(-1, self.keys.shape[1], -1)
        return every if self.mask is None else self.mask.any(1) & every

    def row(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        """Attention from the token that is read to each, (b, h, n); the mean over all tokens' where all are read."""
        if self.position is None:
            return self._reduced(query, key, lambda matrix, real: _mean_row(matrix, real))
        texts = torch.arange(len(self.position), device=self.position.device)
        if self.attention is not None:
            return at_least_float32(self.attention[texts, :, self.position])
        mask = None if self.mask is None else self.mask.expand(len(texts), -1, -1, -1)[texts, :, self.position]
        found = probabilities(query[texts, :, self.position, None], key, self._allowed(mask, slice(None), rows=1))
        return found.squeeze(2)

    def row_and_column(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        """`row`, then the attention from each token to the one that is read, (b, n, 2h).

        Under a causal mask no token but the one read sees it: the column is 0 but there. Where all tokens are read the
        column is their mean, the same 1 / n for each.
        """
        row = self.row(query, key)

        def column(matrix: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
            return matrix.sum(-1) / real.sum(-1)[:, None, None]

        read_all = self.position is None
        found = self._reduced(query, key, column) if read_all else self._column(query, key, row)
        return torch.cat([row, found], dim=1).transpose(1, 2)

    def head_mean(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        """Mean over heads of the attention matrix, (b, n, n)."""
        return self._reduced(query, key, lambda matrix, _: matrix.mean(1))

    def matrix(self, query: torch.Tensor, key: torch.Tensor, texts: slice = slice(None)) -> torch.Tensor:
        """Attention probabilities of some texts, (texts, h, n, n), at least float32."""
        if self.attention is not None:
            return at_least_float32(self.attention[texts])
        mask = self.mask if self.mask is None or len(self.mask) == 1 else self.mask[texts]
        allowed = self._allowed(mask, texts)
        if self.normalisers is None:
            return probabilities(query[texts], key[texts], allowed)
        scores = _products(query[texts], key[texts])
        # A query that sees no key has no normaliser, and exp(-inf) for each.
        sums = self.normalisers[texts].nan_to_num(0.0, 0.0, 0.0)
        return scores.masked_fill_(~allowed, float("-inf")).sub_(sums[..., None]).exp_()

    def _allowed(self, mask: torch.Tensor | None, texts: slice, rows: int = 0) -> torch.Tensor:
        keys = self.keys[texts, None, None]
        if mask is None:
            return keys
        return (mask[:, :, None] if rows else mask) & keys

    def _column(self, query: torch.Tensor, key: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        """Attention from each token to the one that is read, (b, h, n); it needs each row's normaliser, but no row."""
        assert self.position is not None
        texts = torch.arange(len(row), device=row.device)
        if self.attention is not None:
            return at_least_float32(self.attention[texts, :, :, self.position])
        place = self.position[:, None, None].expand(-1, row.shape[1], 1)
        seen = self.keys[:, None].expand(-1, 1, -1)
        if self.mask is not None:
            seen = self.mask.expand(len(row), -1, -1, -1)[texts, :, :, self.position] & seen
            if not seen.scatter(2, place[:, : seen.shape[1]], False).any():
                # No other token sees it, as under a causal mask.
                return torch.zeros_like(row).scatter(2, place, row.gather(2, place))
        if self.normalisers is not None:
            read = at_least_float32(key[texts, :, self.position])
            found = torch.einsum("bhnd,bhd->bhn", at_least_float32(query), read)
            return found.sub_(self.normalisers).exp_().masked_fill_(~seen, 0.0)
        parts = []
        for block in self._blocks(query):
            mask = self.mask if self.mask is None or len(self.mask) == 1 else self.mask[block]
            allowed = self._allowed(mask, block)
            scores = _products(query[block], key[block])
            scores = scores.masked_fill_(~allowed, torch.finfo(scores.dtype).min)
            rows, columns = texts[: len(scores)], self.position[block]
            # A[j, p] = exp(s_jp - log sum_i exp s_ji).
            found = (scores[rows, :, :, columns] - scores.logsumexp(-1)).exp_()
            parts.append(found * allowed.expand(*scores.shape[:1], -1, scores.shape[2], -1)[rows, :, :, columns])
        return torch.cat(parts)

    def _reduced(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        reduce: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    ) -> torch.Tensor:
        return torch.cat([reduce(self.matrix(query, key, block), self.keys[block]) for block in self._blocks(query)])

    def _blocks(self, query: torch.Tensor) -> list[slice]:
        batch, heads, tokens, _ = query.shape if self.attention is None else self.attention.shape
        size = max(1, BLOCK_ELEMENTS // (heads * tokens**2)) if self.keys.device.type == "cpu" else batch
        return [slice(start, start + size) for start in range(0, batch, size)]


def _mean_row(matrix: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    share = real.to(matrix.dtype) / real.sum(-1, keepdim=True)
    return torch.einsum("bq,bhqk->bhk", share, matrix)


def at_least_float32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def probabilities(query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """softmax(Q K^T) over the keys that `mask` (bool) lets through, at least float32; 0 where a query sees none.

    query, key: (..., n, d), the query already scaled.
    """
    return masked_softmax(_products(query, key), mask)


def _products(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Q K^T, at least float32. Heads that lie apart are copied first: copying their transpose takes longer."""
    return at_least_float32(query.contiguous() @ key.contiguous().transpose(-1, -2))


def masked_softmax(scores: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """softmax over the entries of (..., queries, keys) that `mask` lets through; 0 where it lets none."""
    if mask is None:
        return scores.softmax(-1)
    # A row of -inf alone would have NaN, also in its gradient.
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1) * mask


@dataclass(frozen=True, slots=True)
class Call:
    """One layer's attention as its call has it.

    query: already scaled, key, value: (b, h, n, d), keys and values repeated for each head of a group; mask: bool,
    (b or 1, h or 1, n, n), or None. For a softmax over logits they are None, and `attention` holds its result.
    normalisers: as in Pattern, where they were asked for and the kernel gives them.
    """

    query: torch.Tensor | None = None
    key: torch.Tensor | None = None
    value: torch.Tensor | None = None
    mask: torch.Tensor | None = None
    attention: torch.Tensor | None = None
    normalisers: torch.Tensor | None = None

    def written_out(self) -> torch.Tensor:
        """The probabilities, with their graph."""
        if self.attention is not None:
            return self.attention
        assert self.query is not None and self.key is not None
        return probabilities(self.query, self.key, self.mask)


class AttentionCalls(TorchFunctionMode):
    """Hands the attention calls made while entered to `on_call`; what that returns, if anything, is the result.

    A fused call's result is the context (b, h, n, d), a softmax's the probabilities (b, h, n, n).

    Args:
        wanted: asked at each call whether `on_call` gets it; without it, all do.
        normalisers: whether fused calls are to have them, where nothing is differentiated. The model's result is then
            that of the same kernel, to the bit.
    """

    def __init__(
        self,
        on_call: Callable[[Call], torch.Tensor | None],
        wanted: Callable[[], bool] | None = None,
        normalisers: bool = False,
    ) -> None:
        super().__init__()
        self.on_call, self.wanted, self.normalisers = on_call, wanted, normalisers

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        fused = func is nn.functional.scaled_dot_product_attention
        if not fused and func not in _SOFTMAX:
            return func(*args, **kwargs)
        found = None if fused else func(*args, **kwargs)
        if found is not None and found.ndim != 4:
            return found
        if self.wanted is not None and not self.wanted():
            return func(*args, **kwargs) if found is None else found
        if found is None:
            call = _fused_call(*args, **kwargs)
            if self.normalisers:
                call, found = _with_normalisers(call, *args, **kwargs)
        else:
            call = Call(attention=found)
        result = self.on_call(call)
        if result is not None:
            return result
        return func(*args, **kwargs) if found is None else found


_SOFTMAX = (nn.functional.softmax, torch.softmax, torch.Tensor.softmax)


def _with_normalisers(
    call: Call,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Call, torch.Tensor | None]:
    """The call with its normalisers, and the kernel's result; None where the kernel does not give them.

    Where a mask is causal the column of the token read needs none, and what a float mask adds is not in a Call.
    """
    masked = attn_mask is None or attn_mask.dtype == torch.bool
    differentiated = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
    if is_causal or enable_gqa or differentiated or not masked:
        return call, None
    bias = additive(attn_mask, query.dtype)
    if not runs_flash_on_cpu(query, key, value, bias, dropout_p, scale):
        return call, None
    found, normalisers = flash_on_cpu(query, key, value, dropout_p, False, attn_mask=bias, scale=scale)
    return replace(call, normalisers=at_least_float32(normalisers)), found


def _fused_call(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Call:
    """Read the arguments of torch's scaled_dot_product_attention; dropout plays no part."""
    if enable_gqa:
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    mask = attn_mask
    if is_causal:
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()[None, None]
    elif mask is not None and mask.dtype != torch.bool:
        # transformers' own masks hold 0 and the lowest number, or -inf.
        mask = mask > torch.finfo(mask.dtype).min / 2
    return Call(query * (query.shape[-1] ** -0.5 if scale is None else scale), key, value, mask)
