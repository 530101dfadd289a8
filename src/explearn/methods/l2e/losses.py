"""L2E's two losses (section 3), vectorised over all tokens, or pairs of tokens, of a batch."""

from __future__ import annotations

import torch
from torch.nn import functional

LEVELS = (-2, -1, 0, 1, 2)
"""High negative, low negative, neutral, low positive, high positive; the student's outputs in this order."""


def labelling_loss(logits: torch.Tensor, levels: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """Sequence labelling: -log Pr(h(w_i)) of each token, mean over the batch's tokens (the paper sums).

    Args:
        logits: (batch, tokens, 5), of LEVELS.
        levels: int64, (batch, tokens), values of LEVELS.
        known: bool, (batch, tokens), True where the teacher gives a score.
    """
    return functional.cross_entropy(logits[known], levels[known] - LEVELS[0])


def ranking_loss(values: torch.Tensor, weights: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """Ranking: -log(e^v_k / (e^v_i + e^v_j)) of each pair of a text's tokens, k the one of larger weight.

    The paper sums over i < j; here the sum is divided by the number of pairs of the text, and the mean over texts is
    taken, so that long texts weigh as much as short ones. Pairs of equal weight (the pieces of one word) have no order
    and are left out. Memory is batch x tokens^2.

    Args:
        values: v, (batch, tokens).
        weights: w, or |w|, (batch, tokens): whatever is to be ordered.
        known: bool, (batch, tokens), True where the teacher gives a score.
    """
    # Entry (i, j): i outweighs j. Each ordered pair occurs once.
    ordered = (weights[:, :, None] > weights[:, None, :]) & known[:, :, None] & known[:, None, :]
    losses = functional.softplus(values[:, None, :] - values[:, :, None]) * ordered
    pairs = ordered.sum((1, 2))
    return (losses.sum((1, 2)) / pairs.clamp_min(1)).sum() / (pairs > 0).sum().clamp_min(1)
