"""The losses that make an explanation comprehensive, sufficient or consistent (IvRA 2.2 and appendix B)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from explearn.lens.watch import content_mask
from explearn.metrics.protocols import top_count
from explearn.predictors.architectures import position_offset
from explearn.predictors.encoding import Batch
from explearn.text.alignment import NO_WORD

PERCENTS = (1, 5, 10, 20, 50)
"""Shares of the words that are removed or kept, in percent: k of equations 8 to 11."""

MARGINS = {"comp": 1.0, "suff": 0.1}
"""mu of equations 10 and 11, in nats (B.3)."""

DISTANCE_EPSILON = 0.1
"""e of `divergence_loss`, added to the distance of two texts' states, so that similar texts have a finite loss."""

RANK_PARTS = 16
"""Number of intervals with equally many pairs each, by which distances are ranked."""

GATE_FLOOR = 1e-12
"""Weight of a deleted token in attention: negligible in float32, with a finite logarithm."""


class WordIndex(NamedTuple):
    """The word that each token of a batch belongs to.

    Attributes:
        owner: int64, (b, n), `most` at tokens of no word.
        present: bool, (b, most), words that have a token.
        totals: number of each text's words, (b,), including those without a token (cut off, or in an answer).
        most: number of words in the longest text.
    """

    owner: Tensor
    present: Tensor
    totals: tuple[int, ...]
    most: int

    @classmethod
    def of(cls, batch: Batch) -> WordIndex:
        totals = tuple(len(encoding.words) for encoding in batch.encodings)
        most = max(1, *totals)
        owner = batch.word_ids()
        owner = owner.masked_fill(owner == NO_WORD, most)
        present = torch.zeros(len(batch), most + 1, dtype=torch.bool, device=owner.device).scatter_(1, owner, True)
        return cls(owner, present[:, :most], totals, most)

    def pool(self, r: Tensor) -> Tensor:
        """Sum over the tokens of each word: (b, n) -> (b, most)."""
        return r.new_zeros(len(r), self.most + 1).scatter_add(1, self.owner, r)[:, : self.most]

    def spread(self, values: Tensor, other: float) -> Tensor:
        """Give each token its word's value, and tokens of no word `other`: (b, most) -> (b, n)."""
        return functional.pad(values, (0, 1), value=other).gather(1, self.owner)


def top_words(r: Tensor, words: WordIndex, percents: Sequence[int]) -> Tensor:
    """Return t^k: 1 at the tokens of the top k % of each text's words, else 0, (b, n).

    These are the words that the metric takes: `top_count` of all the text's words, by the sum of r over a word's
    tokens, then by position; words without tokens come last (`Attribution.filled`). The choice has no gradient;
    `choice_loss` replaces it.

    Args:
        r: the explanations, (b, n).
        words: the batch's words.
        percents: k, for each text.
    """
    # The sort is stable: words without tokens come before positions beyond the end of the text.
    scores = words.pool(r.detach()).masked_fill(~words.present, float("-inf"))
    rank = torch.empty_like(scores, dtype=torch.int64)
    order = scores.argsort(dim=1, descending=True, stable=True)
    rank.scatter_(1, order, torch.arange(words.most, device=r.device).expand_as(order))
    counts = [top_count(total, percent) for total, percent in zip(words.totals, percents, strict=True)]
    hard = rank < torch.tensor(counts, device=r.device)[:, None]
    return words.spread(hard.to(scores.dtype), 0.0)


def choice_loss(r: Tensor, slope: Tensor, words: WordIndex) -> Tensor:
    """Return a loss that replaces the gradient of choosing the top words: cross-entropy of r to target shares, (b,).

    A word's target share is the slope of the class's log-odds at its gate if that is positive, else 0, divided by the
    sum of these over the words. Both criteria rank the same words first: without them the class is lost (comp), with
    only them it stays (suff). A text in which no word supports the class has a loss of 0.

    Args:
        r: the explanations, (b, n).
        slope: of the log-odds at every token's gate, (b, n), without graph.
        words: the batch's words.
    """
    support = words.pool(slope).clamp_min(0) * words.present
    shares = support / support.sum(1, keepdim=True).clamp_min(torch.finfo(support.dtype).tiny)
    return -(shares * words.pool(r).clamp_min(1e-6).log()).sum(1)


def gated_inputs(model: torch.nn.Module, batch: Batch, gate: Tensor, recount: bool = True) -> dict[str, Any]:
    """Return inputs with which every attention multiplies a token's weight by its gate.

    With gates of 0 and 1, and positions counted anew, the logits are those of the text without the tokens whose gate is
    0.

    Args:
        model: the classifier's model.
        batch: b texts of n tokens.
        gate: (b, n), in [0, 1]; its values at special tokens and padding are ignored.
        recount: count positions over the tokens whose gate is not 0; otherwise every token keeps its position.
    """
    config: Any = model.config
    content = content_mask(batch)
    real = batch.attention_mask.bool()
    bias = torch.where(content, gate.clamp_min(GATE_FLOOR), 1.0).log()
    bias = bias.masked_fill(~real, torch.finfo(bias.dtype).min)
    counted = real
    if recount:
        counted = real & ((gate.detach() > 0) | ~content)
    positions = (counted.long().cumsum(1) - 1).clamp_min(0) + position_offset(config)
    mask = bias[:, None, None].expand(-1, 1, gate.shape[1], -1)
    return {**batch.model_inputs(), "attention_mask": mask, "position_ids": positions}


def log_odds(logits: Tensor, classes: Tensor) -> Tensor:
    """Return log p - log (1 - p) of one class per text, (b,), from logits (b, C); it is not flat where p is near 1."""
    chosen = logits.gather(1, classes[:, None])
    return (chosen - logits.scatter(1, classes[:, None], float("-inf")).logsumexp(1, keepdim=True)).squeeze(1)


def margin_loss(rise: Tensor, margin: float) -> Tensor:
    """Return mu + max(-mu, rise) (eq. 10, 11), (b,), which falls with `rise` and is 0 once that is -mu or less.

    For comp, rise = CE(x) - CE(x without t^k), for suff CE(t^k) - CE(x): cross-entropies of the predicted class.
    """
    return margin + rise.clamp_min(-margin)


def divergence_loss(r: Tensor, states: Tensor) -> Tensor:
    """Return the mean of KL(r_i || r_j) / (||H_i - H_j||_2 + DISTANCE_EPSILON) over ordered pairs (eq. 13, 19).

    Explanations are compared word by word; a missing word of a shorter text counts as 0, raised to a small constant
    that keeps KL finite.

    Args:
        r: the explanations by word, (b, words).
        states: H, (b, d).
    """
    logs = r.clamp_min(1e-4).log()
    divergence = (r * logs).sum(1)[:, None] - r @ logs.T
    pairs = ~torch.eye(len(r), dtype=torch.bool, device=r.device)
    return (divergence / (_distances(states) + DISTANCE_EPSILON))[pairs].mean()


def rank_correlation_loss(r: Tensor, states: Tensor) -> Tensor:
    """Return 1 - correlation of soft ranks of the distances between explanations and between states, over all pairs.

    The metric (eq. 12) has ranks without a gradient. A distance's soft rank is the share of smaller distances,
    interpolated linearly between the quantiles of RANK_PARTS intervals, which count as constants: the gradient of a
    pair is larger where distances are dense. This loss is our own; it is 1 if all distances are equal.

    Args:
        r: the explanations by word, (b, words).
        states: H, (b, d).
    """

    def soft_ranks(vectors: Tensor) -> Tensor:
        first, second = torch.triu_indices(len(vectors), len(vectors), 1, device=vectors.device)
        distances = _distances(vectors.float())[first, second]
        values = distances.detach()
        cuts = values.quantile(torch.linspace(0, 1, RANK_PARTS + 1, device=values.device))
        part = torch.searchsorted(cuts, values, right=True).clamp(1, RANK_PARTS) - 1
        # A lower bound on the width limits the slope in very narrow intervals.
        width = (cuts[part + 1] - cuts[part]).clamp_min(0.01 * float(values.std(correction=0)) + 1e-9)
        ranks = (part + (distances - cuts[part]) / width) / RANK_PARTS
        return ranks - ranks.mean()

    a = soft_ranks(r)
    b = soft_ranks(states)
    return 1 - (a * b).sum() / (a.square().sum() * b.square().sum() + 1e-12).sqrt()


def _distances(vectors: Tensor) -> Tensor:
    """Return the L2 distance of each pair, (b, d) -> (b, b); unlike cdist's, its gradient is finite at 0."""
    return ((vectors[:, None] - vectors[None]).square().sum(-1) + 1e-12).sqrt()
