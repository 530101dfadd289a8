"""GlobEnc: size of each token's part of an encoder layer's output, rolled out."""

from __future__ import annotations

import torch

from explearn.lens.anatomy import Block, BlockTrace
from explearn.methods.decomposition.mixing import LayerMixing, linear_norm
from explearn.methods.info import About


class GlobEnc(LayerMixing):
    """Size of each token's part of a layer's output, layer norms included, rolled out through the layers.

    Global token attribution by norms of the whole encoder layer, N_ENC (Modarressi et al. 2022).

    Token j's part of token i's vector passes the attention, its residual connection and layer norm (mean of its own,
    deviation of the whole vector), then the second residual connection and layer norm alike; what the feed-forward
    layer adds is left out of the parts, as its activation cannot be split. c[i, j] is the part's L2 norm; rows brought
    to sum 1, layers multiplied, row [CLS] (see LayerMixing).

    The two deviations of token i divide all of its row, and vanish when the row is brought to sum 1; so they are left
    out.
    """

    about = About(
        name="globenc",
        family="decomposition",
        cost="one forward pass, and its parts token by token",
        needs=frozenset({"attentions"}),
        uncounted=True,
    )

    def contributions(
        self, block: Block, kept: BlockTrace, vectors: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        parts = weights @ linear_norm(block.norm, linear_norm(block.attention_norm, vectors))
        lengths: torch.Tensor = torch.linalg.vector_norm(parts, dim=-1)
        return lengths
