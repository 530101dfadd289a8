"""ALTI: how close each token's part of an attention block's output comes to the whole, rolled out."""

from __future__ import annotations

import torch

from explearn.lens.anatomy import Block, BlockTrace
from explearn.methods.decomposition.mixing import LayerMixing, deviation, linear_norm
from explearn.methods.info import About


class ALTI(LayerMixing):
    """How close each token's part of a layer's output comes to the whole, rolled out through the layers.

    Aggregation of layer-wise token-to-token interactions (Ferrando et al. 2022).

    With y_i the attention block's output (residual connection and layer norm included) and T_i(x_j) token j's part,

        c[i, j] = max(0, ||y_i||_1 - ||y_i - T_i(x_j)||_1),

    rows brought to sum 1, layers multiplied, row [CLS] (see LayerMixing). The feed-forward layers play no part.
    """

    about = About(
        name="alti",
        family="decomposition",
        cost="one forward pass, and its parts token by token",
        needs=frozenset({"attentions"}),
        uncounted=True,
    )

    def contributions(
        self, block: Block, kept: BlockTrace, vectors: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        parts = transformed_vectors(block, kept, vectors, weights)
        whole = kept.middle[:, None, : weights.shape[2]]
        size, distance = (torch.linalg.vector_norm(v, ord=1, dim=-1) for v in (whole, parts.sub_(whole)))
        return torch.clamp(size - distance, min=0)


def transformed_vectors(block: Block, kept: BlockTrace, vectors: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """T_i(x_j), shape (b, sources, r, d), from arguments as in `LayerMixing.contributions`.

    Summed over all j they miss y_i by the biases: gamma * (b_O - mean(b_O)) / s_i + beta, s_i the layer norm's
    deviation.
    """
    parts = weights @ linear_norm(block.attention_norm, vectors)
    return parts.div_(deviation(block.attention_norm, kept.attention_sum[:, None, : weights.shape[2]]))
