"""Explanations from queries and keys through learned weights (IvRA 2.1; Attention-SMaT, Fernandes et al. 2022)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, Literal, cast

import entmax
import torch
from torch import nn

from explearn.introspection.capture import Reducer, layer_count

Norm = Literal["softmax", "sparsemax"]
Level = Literal["feature", "head", "layer"]


def normalise(logits: torch.Tensor, norm: Norm) -> torch.Tensor:
    """NORM of IvRA over the last axis, in float32 at least; entries of -inf become 0."""
    logits = logits if logits.dtype == torch.float64 else logits.float()
    if norm == "softmax":
        return logits.softmax(-1)
    if torch.is_grad_enabled() and logits.requires_grad:
        # NaN stays NaN, for which entmax has but an index error: the losses' check says where it came from.
        lost = ~logits.amax(-1, keepdim=True).isfinite()
        found = cast(torch.Tensor, entmax.sparsemax(logits.masked_fill(lost, 0.0), dim=-1))
        return found.masked_fill(lost, float("nan"))
    return _sparsemax(logits)


def _sparsemax(logits: torch.Tensor) -> torch.Tensor:
    """Sparsemax without sorting, which is most of its cost where there is no gradient to take.

    Newton's method on sum(max(0, x - t)) = 1, convex and falling in t, from a t that is too small: it stays below the
    solution and is there once no more entries fall out. Rounding may carry t past the solution; it is never lowered, so
    that entries only ever fall out, and the steps end.
    """
    logits = logits - logits.amax(-1, keepdim=True)
    threshold = torch.full_like(logits[..., :1], -1.0)
    left = -1
    while True:
        above = (logits - threshold).relu_()
        count = torch.count_nonzero(above, -1).unsqueeze(-1)
        threshold = torch.maximum(threshold, threshold + (above.sum(-1, keepdim=True) - 1) / count)
        if (total := int(count.sum())) == left:
            return (logits - threshold).relu_()
        left = total


def over_text(logits: torch.Tensor, content: torch.Tensor, norm: Norm) -> torch.Tensor:
    """NORM over each text's own tokens, (..., b, n); all others have exactly 0, and so has a text without any.

    The gradient of a text without tokens is 0, too, where NORM over nothing would have NaN.
    """
    without = ~content.any(1, keepdim=True)
    return normalise(logits.masked_fill(~(content | without), float("-inf")), norm) * content


class AttentionModule(nn.Module, ABC):
    """Base of the two modules: what a layer adds to the explanation, and the explanation r from what all layers add.

    l layers, h heads, d head size, b texts, n tokens. `content` is bool, (b, n): True at tokens of the text. r is on
    the simplex over these; special tokens and padding have exactly 0, and so has a text without tokens of its own.
    """

    def __init__(self, layers: int, heads: int, head_size: int, norm: Norm) -> None:
        super().__init__()
        self.layers, self.heads, self.head_size, self.norm = layers, heads, head_size, norm

    @classmethod
    def of(cls, model: nn.Module, **options: Any) -> Any:
        """A module with its initial weights for a classifier's attention; UnsupportedError as `layer_count`."""
        config: Any = model.config
        heads = int(config.num_attention_heads)
        return cls(layer_count(model), heads, int(config.hidden_size) // heads, **options)

    @abstractmethod
    def layer(
        self, index: int, query: torch.Tensor, key: torch.Tensor, real: torch.Tensor, content: torch.Tensor
    ) -> torch.Tensor:
        """A layer's part, (b, n), from queries and keys (b, n, h, d), not scaled; `real` is False at padding."""

    @abstractmethod
    def combine(self, parts: list[torch.Tensor], content: torch.Tensor) -> torch.Tensor:
        """r, (b, n), from the parts of all layers in their order."""

    @abstractmethod
    def coefficients(self) -> dict[str, list[Any]]:
        """What was learned of whole parts: `heads`, (l, h), and `layers`, (l,), where the module has such."""

    def reader(self, content: torch.Tensor) -> tuple[Reducer[torch.Tensor], list[torch.Tensor]]:
        """A reducer for `capture_attention`, for one forward pass, and the list that it fills with the layers' parts.

        What a layer holds in queries and keys is let go as soon as its part is known.
        """
        parts: list[torch.Tensor] = []

        def reduce(query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            unscaled = query.transpose(1, 2) * self.head_size**0.5
            parts.append(self.layer(len(parts), unscaled, key.transpose(1, 2), mask, content))
            return parts[-1]

        return reduce, parts


class InterpretableAttention(AttentionModule):
    """IvRA's module, equations 1 to 5, with the axes that they leave open fixed as follows.

        q~ = NORM_d(w_Q[l,h] * q),  k~ = NORM_d(w_K[l,h] * k)                over the head's features, (1) and (2)
        psi[l,h,j] = d mean_i q~_i . k~_j                                     over all real query tokens i, (4)
        Psi[l] = NORM_j(sum_h lambda[l,h] psi[l,h,j])                         over the text's tokens j, (3)
        r = 1/L sum_l NORM_j(eta[l] s Psi[l,j])                               over the text's tokens j, (5)

    The factor d, which lambda could take up, makes psi about 1 for features alike. s is the number of the text's tokens
    under softmax, so that long texts do not get flatter maps than short ones, and 1 under sparsemax, which leaves what
    is on the simplex as it is. All weights start at 1. The weights of a level that is switched off stay there.

    Parameters: query_weights, key_weights (l, h, d); head_weights lambda (l, h); layer_weights eta (l).
    """

    def __init__(
        self,
        layers: int,
        heads: int,
        head_size: int,
        norm: Norm = "softmax",
        levels: Collection[Level] = ("feature", "head", "layer"),
    ) -> None:
        super().__init__(layers, heads, head_size, norm)
        self.query_weights = nn.Parameter(torch.ones(layers, heads, head_size), "feature" in levels)
        self.key_weights = nn.Parameter(torch.ones(layers, heads, head_size), "feature" in levels)
        self.head_weights = nn.Parameter(torch.ones(layers, heads), "head" in levels)
        self.layer_weights = nn.Parameter(torch.ones(layers), "layer" in levels)

    def layer(
        self, index: int, query: torch.Tensor, key: torch.Tensor, real: torch.Tensor, content: torch.Tensor
    ) -> torch.Tensor:
        queries = normalise(self.query_weights[index] * query, self.norm)
        keys = normalise(self.key_weights[index] * key, self.norm)
        share = real.to(queries.dtype) / real.sum(1, keepdim=True)
        mean = torch.einsum("bn,bnhd->bhd", share, queries)
        pooled = self.head_size * torch.einsum("bhd,h,bnhd->bn", mean, self.head_weights[index], keys)
        return over_text(pooled, content, self.norm)

    def combine(self, parts: list[torch.Tensor], content: torch.Tensor) -> torch.Tensor:
        maps = torch.stack(parts)
        scale = content.sum(1, keepdim=True) if self.norm == "softmax" else 1
        logits = self.layer_weights[:, None, None] * scale * maps
        return over_text(logits, content, self.norm).mean(0)

    def coefficients(self) -> dict[str, list[Any]]:
        return {"heads": self.head_weights.tolist(), "layers": self.layer_weights.tolist()}


class HeadAttention(AttentionModule):
    """Attention-SMaT's module: weights for whole heads, of all layers together.

        s[l,h,j] = mean_i q_i . k_j / sqrt(d)            attention logits, mean over all real query tokens i
        r = NORM_j(sum_lh NORM(phi)[l,h] s[l,h,j])       over the text's tokens j; NORM(phi) over all l h heads

    Parameter: head_weights phi (l, h), all 0 at first: every head counts alike.
    """

    def __init__(self, layers: int, heads: int, head_size: int, norm: Norm = "sparsemax") -> None:
        super().__init__(layers, heads, head_size, norm)
        self.head_weights = nn.Parameter(torch.zeros(layers, heads))

    @property
    def mixture(self) -> torch.Tensor:
        """NORM(phi), (l, h)."""
        return normalise(self.head_weights.flatten(), self.norm).view_as(self.head_weights)

    def layer(
        self, index: int, query: torch.Tensor, key: torch.Tensor, real: torch.Tensor, content: torch.Tensor
    ) -> torch.Tensor:
        share = real.to(query.dtype) / real.sum(1, keepdim=True)
        mean = torch.einsum("bn,bnhd->bhd", share, query) * self.head_size**-0.5
        return torch.einsum("bhd,h,bnhd->bn", mean.float(), self.mixture[index], key.float())

    def combine(self, parts: list[torch.Tensor], content: torch.Tensor) -> torch.Tensor:
        total = torch.stack(parts).sum(0)
        return over_text(total, content, self.norm)

    def coefficients(self) -> dict[str, list[Any]]:
        return {"heads": self.mixture.tolist()}
