"""Explanations from queries and keys through learned weights (IvRA 2.1; Attention-SMaT, Fernandes et al. 2022)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, NamedTuple

import entmax
import torch
from torch import Tensor, nn

from explearn.core.compute import at_least_float32
from explearn.core.errors import UnsupportedError
from explearn.lens.attention import Attention, capture_attention, layer_count
from explearn.lens.watch import content_mask
from explearn.methods.ivra.params import Level, Norm
from explearn.predictors.architectures import head_size
from explearn.predictors.encoding import Batch
from explearn.predictors.transformer import TransformerPredictor


def normalise(logits: Tensor, norm: Norm) -> Tensor:
    """Apply NORM of IvRA over the last axis, in float32 at least; entries of -inf become 0."""
    logits = at_least_float32(logits)
    if norm == "softmax":
        return logits.softmax(-1)
    # entmax has an index error for NaN: it stays NaN, for the check of the losses.
    lost = ~logits.amax(-1, keepdim=True).isfinite()
    shares: Tensor = entmax.sparsemax(logits.masked_fill(lost, 0.0), dim=-1)
    return shares.masked_fill(lost, float("nan"))


def mean_product(query: Tensor, key: Tensor, weights: Tensor, seen: Attention, scale: float = 1.0) -> Tensor:
    """Return sum_h weights[h] mean_i q_i . k_j scale, (b, n), over the queries i that see key j.

    Args:
        query: q, (b, n, h, d).
        key: k, (b, n, h, d).
        weights: of the heads, (h,).
        seen: the layer's attention. Without a mask every real token sees every other; of a causal or local layer only
            the queries count that may attend to j; a key that none sees has 0.
        scale: a factor.
    """
    real = seen.keys
    assert real is not None
    if seen.mask is None:
        share = real.to(query.dtype) / real.sum(1, keepdim=True)
        mean = torch.einsum("bn,bnhd->bhd", share, query) * scale
        return torch.einsum("bhd,h,bnhd->bn", mean.to(key.dtype), weights, key)
    visible = (seen.mask.any(1) & real[:, None] & real[:, :, None]).to(query.dtype)
    share = visible / visible.sum(1, keepdim=True).clamp(min=1)
    means = torch.einsum("bij,bihd->bjhd", share, query) * scale
    return torch.einsum("bjhd,h,bjhd->bj", means.to(key.dtype), weights.to(key.dtype), key)


def over_text(logits: Tensor, content: Tensor, norm: Norm) -> Tensor:
    """Apply NORM over each text's own tokens, (..., b, n); all others have exactly 0, and so has a text without any.

    The gradient of a text without tokens is 0, too, where NORM over nothing would have NaN.
    """
    empty = ~content.any(1, keepdim=True)
    return normalise(logits.masked_fill(~(content | empty), float("-inf")), norm) * content


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
        self.layers = layers
        self.heads = heads
        self.head_size = head_size
        self.norm = norm

    @abstractmethod
    def layer(self, index: int, attention: Attention, content: Tensor) -> Tensor:
        """Return a layer's part, (b, n)."""

    @abstractmethod
    def combine(self, parts: list[Tensor], content: Tensor) -> Tensor:
        """Return r, (b, n), from the parts of all layers in their order."""

    @abstractmethod
    def coefficients(self) -> dict[str, list[Any]]:
        """Return what was learned of whole parts: `heads`, (l, h), and `layers`, (l,), where the module has such."""

    def queries_and_keys(self, attention: Attention) -> tuple[Tensor, Tensor]:
        """Return a layer's queries and keys, (b, n, h, d), not scaled.

        Raises:
            UnsupportedError: the model does not show them.
        """
        if attention.query is None or attention.key is None:
            raise UnsupportedError(
                "a model that writes its attention out shows no queries and keys; load it with "
                "attn_implementation='sdpa'"
            )
        return attention.query.transpose(1, 2) * self.head_size**0.5, attention.key.transpose(1, 2)


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

    Attributes:
        query_weights: w_Q, (l, h, d).
        key_weights: w_K, (l, h, d).
        head_weights: lambda, (l, h).
        layer_weights: eta, (l,).
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

    def layer(self, index: int, attention: Attention, content: Tensor) -> Tensor:
        query, key = self.queries_and_keys(attention)
        queries = normalise(self.query_weights[index] * query, self.norm)
        keys = normalise(self.key_weights[index] * key, self.norm)
        pooled = self.head_size * mean_product(queries, keys, self.head_weights[index], attention)
        return over_text(pooled, content, self.norm)

    def combine(self, parts: list[Tensor], content: Tensor) -> Tensor:
        weights = self.layer_weights[:, None, None]
        if self.norm == "softmax":
            weights = weights * content.sum(1, keepdim=True)
        return over_text(weights * torch.stack(parts), content, self.norm).mean(0)

    def coefficients(self) -> dict[str, list[Any]]:
        return {"heads": self.head_weights.tolist(), "layers": self.layer_weights.tolist()}


class HeadAttention(AttentionModule):
    """Attention-SMaT's module: weights for whole heads, of all layers together.

        s[l,h,j] = mean_i q_i . k_j / sqrt(d)            attention logits, mean over all query tokens i that see j
        r = NORM_j(sum_lh NORM(phi)[l,h] s[l,h,j])       over the text's tokens j; NORM(phi) over all l h heads

    Attributes:
        head_weights: phi, (l, h), all 0 at first: every head counts alike.
    """

    def __init__(self, layers: int, heads: int, head_size: int, norm: Norm = "sparsemax") -> None:
        super().__init__(layers, heads, head_size, norm)
        self.head_weights = nn.Parameter(torch.zeros(layers, heads))

    @property
    def mixture(self) -> Tensor:
        """The heads' shares, NORM(phi), (l, h)."""
        return normalise(self.head_weights.flatten(), self.norm).view_as(self.head_weights)

    def layer(self, index: int, attention: Attention, content: Tensor) -> Tensor:
        query, key = self.queries_and_keys(attention)
        return mean_product(query, key.float(), self.mixture[index], attention, self.head_size**-0.5)

    def combine(self, parts: list[Tensor], content: Tensor) -> Tensor:
        return over_text(torch.stack(parts).sum(0), content, self.norm)

    def coefficients(self) -> dict[str, list[Any]]:
        return {"heads": self.mixture.tolist()}


class ExplainedBatch(NamedTuple):
    """One forward pass.

    Attributes:
        logits: (b, C).
        r: the explanations, (b, n).
        states: H, (b, d), where it was asked for.
    """

    logits: Tensor
    r: Tensor
    states: Tensor | None


def explain_batch(
    classifier: TransformerPredictor, module: AttentionModule, batch: Batch, states: bool = False
) -> ExplainedBatch:
    """Classify and explain a batch in one forward pass.

    H is the mean over all layers' outputs and all real tokens, as `representations.aggregate_states` takes it.

    Args:
        classifier: the classifier.
        module: its attention module.
        batch: b texts of n tokens.
        states: whether to return H.
    """
    content = content_mask(batch)

    def reduce(attention: Attention) -> Tensor:
        # A layer's queries and keys are not held longer than this.
        return module.layer(len(parts), attention, content)

    with classifier.autocast(), capture_attention(classifier.model, reduce) as parts:
        output: Any = classifier.model(**batch.model_inputs(), output_hidden_states=states)
    r = module.combine(list(parts.values()), content)
    mean = None
    if states:
        layers = torch.stack(output.hidden_states[1:]).float().mean(0)
        real = batch.attention_mask[..., None].to(layers.dtype)
        mean = (layers * real).sum(1) / real.sum(1)
    return ExplainedBatch(output.logits.float(), r, mean)
