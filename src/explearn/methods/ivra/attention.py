"""Explanations from queries and keys through learned weights (IvRA 2.1; Attention-SMaT, Fernandes et al. 2022)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any, Literal, NamedTuple, cast

import entmax
import torch
from torch import nn

from explearn.core.compute import at_least_float32
from explearn.core.errors import UnsupportedError
from explearn.lens.attention import Attention, capture_attention, layer_count
from explearn.lens.watch import content_mask
from explearn.predictors.architectures import head_size
from explearn.predictors.encoding import Batch
from explearn.predictors.transformer import TransformerPredictor

Norm = Literal["softmax", "sparsemax"]
Level = Literal["feature", "head", "layer"]


def normalise(logits: torch.Tensor, norm: Norm) -> torch.Tensor:
    """NORM of IvRA over the last axis, in float32 at least; entries of -inf become 0."""
    logits = at_least_float32(logits)
    if norm == "softmax":
        return logits.softmax(-1)
    # entmax has an index error for NaN: it stays NaN, for the check of the losses.
    lost = ~logits.amax(-1, keepdim=True).isfinite()
    shares = cast(torch.Tensor, entmax.sparsemax(logits.masked_fill(lost, 0.0), dim=-1))
    return shares.masked_fill(lost, float("nan"))


def mean_product(
    query: torch.Tensor, key: torch.Tensor, weights: torch.Tensor, seen: Attention, scale: float = 1.0
) -> torch.Tensor:
    """sum_h weights[h] mean_i q_i . k_j scale, (b, n), over the queries i that see key j.

    Args:
        query, key: (b, n, h, d). weights: (h,).
        seen: the layer's attention. Without a mask every real token sees every other; of a causal or local layer only
            the queries count that may attend to j; a key that none sees has 0.
    """
    real = seen.keys
    assert real is not None
    if seen.mask is not None:
        visible = (seen.mask.any(1) & real[:, None] & real[:, :, None]).to(query.dtype)
        share = visible / visible.sum(1, keepdim=True).clamp(min=1)
        means = torch.einsum("bij,bihd->bjhd", share, query) * scale
        return torch.einsum("bjhd,h,bjhd->bj", means.to(key.dtype), weights.to(key.dtype), key)
    share = real.to(query.dtype) / real.sum(1, keepdim=True)
    mean = torch.einsum("bn,bnhd->bhd", share, query) * scale
    return torch.einsum("bhd,h,bnhd->bn", mean.to(key.dtype), weights, key)


def over_text(logits: torch.Tensor, content: torch.Tensor, norm: Norm) -> torch.Tensor:
    """NORM over each text's own tokens, (..., b, n); all others have exactly 0, and so has a text without any.

    The gradient of a text without tokens is 0, too, where NORM over nothing would have NaN.
    """
    without = ~content.any(1, keepdim=True)
    return normalise(logits.masked_fill(~(content | without), float("-inf")), norm) * content


def size_of(model: nn.Module) -> tuple[int, int, int]:
    """Return layers, heads and head size of a classifier's attention; UnsupportedError as `layer_count`."""
    config: Any = model.config
    return layer_count(model), int(config.num_attention_heads), head_size(config)


class AttentionModule(nn.Module, ABC):
    """Base of the two modules: what a layer adds to the explanation, and the explanation r from what all layers add.

    l layers, h heads, d head size, b texts, n tokens. `content` is bool, (b, n): True at tokens of the text. r is on
    the simplex over these; special tokens and padding have exactly 0, and so has a text without tokens of its own.
    """

    def __init__(self, layers: int, heads: int, head_size: int, norm: Norm) -> None:
        super().__init__()
        self.layers, self.heads, self.head_size, self.norm = layers, heads, head_size, norm

    @abstractmethod
    def layer(
        self, index: int, query: torch.Tensor, key: torch.Tensor, seen: Attention, content: torch.Tensor
    ) -> torch.Tensor:
        """A layer's part, (b, n), from queries and keys (b, n, h, d), not scaled; `seen` as in `mean_product`."""

    @abstractmethod
    def combine(self, parts: list[torch.Tensor], content: torch.Tensor) -> torch.Tensor:
        """r, (b, n), from the parts of all layers in their order."""

    @abstractmethod
    def coefficients(self) -> dict[str, list[Any]]:
        """Return what was learned of whole parts: `heads`, (l, h), and `layers`, (l,), where the module has such."""

    def reader(self, content: torch.Tensor) -> tuple[Callable[[Attention], torch.Tensor], list[torch.Tensor]]:
        """A reducer for `capture_attention`, for one forward pass, and the list that it fills with the layers' parts.

        What a layer holds in queries and keys is let go as soon as its part is known.
        """
        parts: list[torch.Tensor] = []

        def reduce(attention: Attention) -> torch.Tensor:
            if attention.query is None or attention.key is None:
                raise UnsupportedError(
                    "a model that writes its attention out shows no queries and keys; load it with "
                    "attn_implementation='sdpa'"
                )
            unscaled = attention.query.transpose(1, 2) * self.head_size**0.5
            parts.append(self.layer(len(parts), unscaled, attention.key.transpose(1, 2), attention, content))
            return parts[-1]

        return reduce, parts


class InterpretableAttention(AttentionModule):
    """IvRA's module, equations 1 to 5, with the axes that they leave open fixed as follows.

        q~ = NORM_d(w_Q[l,h] * q),  k~ = NORM_d(w_K[l,h] * k)                over the head's features, (1) and (2)
        psi[l,h,j] = d mean_i q~_i . k~_j                              over all query tokens i that see j, (4)
        Psi[l] = NORM_j(sum_h lambda[l,h] psi[l,h,j])                         over the text's tokens j, (3)
        r = 1/L sum_l NORM_j(eta[l] s Psi[l,j])                               over the text's tokens j, (5)

    Of an encoder's layer every real token sees every other, of a causal or local one those that its mask lets through.
    q and k are as they enter the products: rotated where positions are, a group's key for each of its heads; what is
    added to the products (DeBERTa, MPNet) plays no part.

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
        self, index: int, query: torch.Tensor, key: torch.Tensor, seen: Attention, content: torch.Tensor
    ) -> torch.Tensor:
        queries = normalise(self.query_weights[index] * query, self.norm)
        keys = normalise(self.key_weights[index] * key, self.norm)
        pooled = self.head_size * mean_product(queries, keys, self.head_weights[index], seen)
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

        s[l,h,j] = mean_i q_i . k_j / sqrt(d)            attention logits, mean over all query tokens i that see j
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
        self, index: int, query: torch.Tensor, key: torch.Tensor, seen: Attention, content: torch.Tensor
    ) -> torch.Tensor:
        return mean_product(query, key.float(), self.mixture[index], seen, self.head_size**-0.5)

    def combine(self, parts: list[torch.Tensor], content: torch.Tensor) -> torch.Tensor:
        total = torch.stack(parts).sum(0)
        return over_text(total, content, self.norm)

    def coefficients(self) -> dict[str, list[Any]]:
        return {"heads": self.mixture.tolist()}


class ExplainedBatch(NamedTuple):
    """One forward pass: logits (b, C), r (b, n), and H (b, d) where it was asked for."""

    logits: torch.Tensor
    r: torch.Tensor
    states: torch.Tensor | None


def explain_batch(
    classifier: TransformerPredictor, module: AttentionModule, batch: Batch, states: bool = False
) -> ExplainedBatch:
    """Classify and explain a batch in one forward pass.

    H is the mean over all layers' outputs and all real tokens, as `representations.aggregate_states` takes it.
    """
    content = content_mask(batch)
    reduce, parts = module.reader(content)
    with classifier.autocast(), capture_attention(classifier.model, reduce):
        output: Any = classifier.model(**batch.model_inputs(), output_hidden_states=states)
    mean = None
    if states:
        layers = torch.stack(output.hidden_states[1:]).float().mean(0)
        real = batch.attention_mask[..., None].to(layers.dtype)
        mean = (layers * real).sum(1) / real.sum(1)
    return ExplainedBatch(output.logits.float(), module.combine(parts, content), mean)
