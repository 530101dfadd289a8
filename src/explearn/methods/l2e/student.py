"""L2E's student: a Transformer encoder over the classifier's sub-tokens, with whole or local attention.

b = batch, n = tokens, h = heads, d = width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from explearn.methods.l2e.params import HEADS, L2EParams

LEVELS = (-2, -1, 0, 1, 2)
"""High negative, low negative, neutral, low positive, high positive: the outputs under formulation `labelling`."""

DROPOUT = 0.1
"""Dropout rate of embeddings and of each sublayer's result."""

WAVELENGTH = 10_000.0
"""Longest wavelength of the position code, in units of 2 pi tokens (Vaswani et al., 2017, section 3.5)."""


def position_code(tokens: int, width: int) -> Tensor:
    """Return sines and cosines of the position, (tokens, width); a text may have any length."""
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(WAVELENGTH) / width))
    angles = torch.arange(tokens)[:, None] * rates
    code = torch.zeros(tokens, width)
    code[:, 0::2] = angles.sin()
    code[:, 1::2] = angles.cos()[:, : width // 2]
    return code


def attended(real: Tensor, ends: Tensor, window: int | None) -> Tensor:
    """Return which positions each position attends to, bool, (b, 1, n or 1, n): those within `window` to either side.

    The label tokens see, and are seen by, every position: Longformer's pattern (Beltagy et al., 2020, section 3.1) with
    the two as global ones.

    Args:
        real: bool, (b, n), False at padding.
        ends: int64, (b, 2), positions of the label tokens.
        window: positions to either side; None: all.
    """
    if window is None:
        return real[:, None, None]
    positions = torch.arange(real.shape[1], device=real.device)
    at_end = (positions == ends[:, :1]) | (positions == ends[:, 1:])
    near = (positions[:, None] - positions).abs() <= window
    return ((near | at_end[:, :, None] | at_end[:, None]) & real[:, None])[:, None]


class PreNormBlock(nn.Module):
    """One Transformer block with the layer norms before the sublayers (Xiong et al., 2020)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feedforward_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Tensor, seen: Tensor) -> Tensor:
        """Return the states after the block, (b, n, d).

        Args:
            x: states, (b, n, d).
            seen: bool, (b, 1, n or 1, n); see `attended`.
        """
        b, n, d = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(b, n, 3, HEADS, d // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = self.out(functional.scaled_dot_product_attention(q, k, v, seen).transpose(1, 2).reshape(b, n, d))
        x = x + functional.dropout(mixed, DROPOUT, self.training)
        hidden = self.down(functional.gelu(self.up(self.feedforward_norm(x))))
        return x + functional.dropout(hidden, DROPOUT, self.training)


class Student(nn.Module):
    """Embeddings over the classifier's vocabulary and its C classes, Transformer blocks, and a linear head.

    Args:
        vocabulary: number of the classifier's sub-tokens; ids from here on are the label tokens of the classes.
        classes: C.
        options: options of the network; it has 5 outputs a token, one for each level, or for a ranking 1, the strength.
    """

    def __init__(self, vocabulary: int, classes: int, options: L2EParams) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.window = options.window
        self.embeddings = nn.Embedding(vocabulary, options.width)
        self.labels = nn.Embedding(classes, options.width)
        self.blocks = nn.ModuleList(PreNormBlock(options.width) for _ in range(options.layers))
        self.norm = nn.LayerNorm(options.width)
        self.head = nn.Linear(options.width, 1 if options.formulation == "ranking" else len(LEVELS))
        self.apply(draw_weights)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Return the outputs of every position, (b, n, outputs).

        Args:
            ids: int64, (b, n): label token, sub-tokens, label token, padding (any id).
            lengths: int64, (b,), label tokens included.
        """
        n = ids.shape[1]
        positions = torch.arange(n, device=ids.device)
        real = positions < lengths[:, None]
        is_label = real & (ids >= self.vocabulary)
        tokens = self.embeddings(torch.where(ids < self.vocabulary, ids, 0))
        labels = self.labels(torch.where(is_label, ids - self.vocabulary, 0))
        x = torch.where(is_label[..., None], labels, tokens) + position_code(n, self.head.in_features).to(tokens)
        x = functional.dropout(x, DROPOUT, self.training)
        ends = torch.stack([torch.zeros_like(lengths), lengths - 1], dim=1)
        seen = attended(real, ends, self.window)
        for block in self.blocks:
            x = block(x, seen)
        outputs: Tensor = self.head(self.norm(x))
        return outputs


def draw_weights(module: nn.Module) -> None:
    """Draw a module's own weights: normal(0, 0.02) matrices, as BERT's, and zero biases.

    Embeddings have a standard deviation of 1 / sqrt(2), the size of the position code's entries.
    """
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.02)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.5**0.5)


def principal_embeddings(table: Tensor, width: int) -> Tensor:
    """Return the first `width` principal components of an embedding table (vocabulary, d), scaled as a position code.

    A table narrower than `width` is filled up with zeros.
    """
    table = table.detach().double().cpu()
    centred = table - table.mean(0)
    _, vectors = torch.linalg.eigh(centred.T @ centred)
    components = centred @ vectors.flip(-1)[:, :width]
    scaled = components / components.std().clamp_min(1e-12) * 0.5**0.5
    return functional.pad(scaled, (0, width - scaled.shape[1])).float()
