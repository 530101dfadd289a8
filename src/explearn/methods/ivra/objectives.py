"""Losses that make an explanation comprehensive, sufficient or consistent (IvRA 2.2 and appendix B)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.nn import functional

from explearn.core.errors import ModelError
from explearn.judge.protocols import top_count
from explearn.lens.gradients import content_mask
from explearn.model.architectures import position_offset
from explearn.model.encoding import Batch
from explearn.text.alignment import NO_WORD

RANK_PARTS = 16
"""Parts, with as many pairs each, in which distances are counted to rank them."""

GATE_FLOOR = 1e-12
"""Weight left to a deleted token in attention: nothing in float32, and its logarithm is finite."""


@dataclass(frozen=True, slots=True)
class Words:
    """Which word each token of a batch belongs to.

    owner: int64, (b, n), `most` at tokens of no word. present: bool, (b, most), words that have a token. totals: words
    of each text, those without a token (cut off, or of an answer) with them, (b,). most: words of the longest text.
    """

    owner: torch.Tensor
    present: torch.Tensor
    totals: tuple[int, ...]
    most: int

    @classmethod
    def of(cls, batch: Batch) -> Words:
        most = max(1, *(len(e.words) for e in batch.encodings))
        length = batch.input_ids.shape[1]
        rows = [[*e.word_ids, *[NO_WORD] * (length - len(e))] for e in batch.encodings]
        owner = torch.tensor(rows, device=batch.input_ids.device)
        owner = owner.masked_fill(owner == NO_WORD, most)
        present = torch.zeros(len(rows), most + 1, dtype=torch.bool, device=owner.device).scatter_(1, owner, True)
        return cls(owner, present[:, :most], tuple(len(e.words) for e in batch.encodings), most)

    def pool(self, r: torch.Tensor) -> torch.Tensor:
        """Sum over each word's tokens, (b, most) from (b, n)."""
        return r.new_zeros(len(r), self.most + 1).scatter_add(1, self.owner, r)[:, : self.most]

    def spread(self, values: torch.Tensor, other: float) -> torch.Tensor:
        """Each token gets its word's value, tokens of no word `other`: (b, n) from (b, most)."""
        return functional.pad(values, (0, 1), value=other).gather(1, self.owner)


def top_words(r: torch.Tensor, words: Words, percents: Sequence[int]) -> torch.Tensor:
    """t^k: 1 at the tokens of the top k % of each text's words, else 0, (b, n); `percents` has a k for each text.

    The words that the metric takes: `top_count` of all the text's words, by the sum of r over a word's tokens, then by
    position; words without tokens come last (`Attribution.filled`). The choice has no gradient; `choice_loss` stands
    in for it.
    """
    # The sort is stable: words without tokens come before the places beyond the text's end.
    scores = words.pool(r.detach()).masked_fill(~words.present, float("-inf"))
    rank = torch.empty_like(scores, dtype=torch.int64)
    order = scores.argsort(dim=1, descending=True, stable=True)
    rank.scatter_(1, order, torch.arange(words.most, device=r.device).expand_as(order))
    counts = [top_count(total, percent) for total, percent in zip(words.totals, percents, strict=True)]
    hard = rank < torch.tensor(counts, device=r.device)[:, None]
    return words.spread(hard.to(scores.dtype), 0.0)


def choice_loss(r: torch.Tensor, slope: torch.Tensor, words: Words) -> torch.Tensor:
    """What stands in for the gradient of choosing the top words: cross-entropy of r to what words are worth, (b,).

    A word is worth the slope of the class's log-odds at its gate, as far as it speaks for the class; these, divided by
    their sum, are the shares that r is drawn to. Both criteria ask for the same words first: without them the class is
    lost (comp), with them alone it stays (suff). A text in which no word speaks for the class has a loss of 0.

    Args:
        r: (b, n). slope: of the log-odds at every token's gate, (b, n), without graph.
    """
    worth = words.pool(slope).clamp_min(0) * words.present
    shares = worth / worth.sum(1, keepdim=True).clamp_min(torch.finfo(worth.dtype).tiny)
    return -(shares * words.pool(r).clamp_min(1e-6).log()).sum(1)


def gated_inputs(model: torch.nn.Module, batch: Batch, gate: torch.Tensor, recount: bool = True) -> dict[str, Any]:
    """Inputs of a classifier in which a token's weight in every attention is multiplied by its gate.

    With gates of 0 and 1, and positions counted anew, the logits are those of the shortened text, as if the tokens
    whose gate is 0 had been deleted.

    Args:
        gate: (b, n), in [0, 1]; special tokens and padding are seen to here.
        recount: count positions over the tokens whose gate is not 0; otherwise every token keeps its own.
    """
    config: Any = model.config
    content = content_mask(batch)
    real = batch.attention_mask.bool()
    bias = torch.where(content, gate.clamp_min(GATE_FLOOR), 1.0).log()
    bias = bias.masked_fill(~real, torch.finfo(bias.dtype).min)
    counted = (gate.detach() > 0) | ~content if recount else real
    positions = ((counted & real).long().cumsum(1) - 1).clamp_min(0)
    positions = positions + position_offset(config)
    length = gate.shape[1]
    inputs: dict[str, Any] = batch.model_inputs()
    return {**inputs, "attention_mask": bias[:, None, None].expand(-1, 1, length, -1), "position_ids": positions}


def log_odds(logits: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """log p - log (1 - p) of one class a text, (b,), from logits (b, C); straight where p itself is flat near 1."""
    chosen = logits.gather(1, classes[:, None])
    return (chosen - logits.scatter(1, classes[:, None], float("-inf")).logsumexp(1, keepdim=True)).squeeze(1)


def comprehensiveness_loss(shortened: torch.Tensor, whole: torch.Tensor, margin: float) -> torch.Tensor:
    """mu + max(-mu, -(CE(x without t^k) - CE(x))) (eq. 10), (b,), from cross-entropies of the predicted class.

    It falls as the shortened text gets harder to classify, and is 0 once CE has grown by mu.
    """
    return margin + (whole - shortened).clamp_min(-margin)


def sufficiency_loss(
    logits: torch.Tensor,
    whole: torch.Tensor,
    predicted: torch.Tensor,
    margin: float,
    variant: Literal["margin", "mae", "kl"] = "margin",
) -> torch.Tensor:
    """Penalty for what is lost when the top words alone remain, (b,).

        margin  mu + max(-mu, CE(t^k) - CE(x))   (eq. 11: its -y log p are cross-entropies)
        mae     |CE(t^k) - CE(x)|                (eq. 16)
        kl      KL(p(t^k) || p(x))               (eq. 17)

    Args:
        logits: of the top words, (b, C). whole: logits of the text, (b, C). predicted: int64, (b,).
    """
    if variant == "kl":
        inside, outside = logits.log_softmax(-1), whole.log_softmax(-1)
        return (inside.exp() * (inside - outside)).sum(-1)
    lost = functional.cross_entropy(logits, predicted, reduction="none") - functional.cross_entropy(
        whole, predicted, reduction="none"
    )
    return lost.abs() if variant == "mae" else margin + lost.clamp_min(-margin)


def consistency_loss(r: torch.Tensor, states: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Mean over the ordered pairs of a batch of KL(r_i || r_j) / (||H_i - H_j||_2 + epsilon) (eq. 13, 19).

    Explanations are compared word by word; a word that a text has not has 0 there, raised to a small constant that
    keeps KL finite.

    Args:
        r: (b, words). states: H, (b, d).
    """
    logs = r.clamp_min(1e-4).log()
    divergence = (r * logs).sum(1)[:, None] - r @ logs.T
    pairs = ~torch.eye(len(r), dtype=torch.bool, device=r.device)
    return (divergence / (_distances(states) + epsilon))[pairs].mean()


def correlation_loss(r: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """1 - Pearson's correlation, over the pairs of a batch, of the distances of explanations with those of states.

    The metric itself (eq. 12), with values in place of ranks, which have no gradient. Of our own making: the paper's
    losses draw explanations together, and what is measured is their order. 1 where all distances are alike.
    """
    return 1 - _correlation(*_pairs(r, states))


def rank_correlation_loss(r: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """1 - correlation of soft ranks, over the pairs of a batch, of both kinds of distances.

    Nearer to the metric (eq. 12) than `correlation_loss`, which far pairs decide. A distance's soft rank is the share
    of pairs that are nearer, straight between the quantiles of RANK_PARTS parts, which are taken as they are: a pair
    is drawn the more, the more others are about as far. Of our own making; 1 where all distances are alike.
    """

    def soft_ranks(distances: torch.Tensor) -> torch.Tensor:
        known = distances.detach()
        cuts = known.quantile(torch.linspace(0, 1, RANK_PARTS + 1, device=known.device))
        part = torch.searchsorted(cuts, known, right=True).clamp(1, RANK_PARTS) - 1
        # The slope of a part that is hardly wider than nothing is kept in bounds.
        width = (cuts[part + 1] - cuts[part]).clamp_min(0.01 * float(known.std(correction=0)) + 1e-9)
        return (part + (distances - cuts[part]) / width) / RANK_PARTS

    a, b = _pairs(r, states)
    return 1 - _correlation(soft_ranks(a), soft_ranks(b))


def _pairs(r: torch.Tensor, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Distances of explanations and of states, of each pair of texts once, (pairs,)."""
    first, second = torch.triu_indices(len(r), len(r), 1, device=r.device)
    return _distances(r.float())[first, second], _distances(states.float())[first, second]


def _correlation(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a, b = a - a.mean(), b - b.mean()
    return (a * b).sum() / (a.square().sum() * b.square().sum() + 1e-12).sqrt()


def _distances(vectors: torch.Tensor) -> torch.Tensor:
    """L2 distance of each pair, (b, b) from (b, d); unlike cdist's, its gradient is finite where it is 0."""
    return ((vectors[:, None] - vectors[None]).square().sum(-1) + 1e-12).sqrt()


def clustering_loss(r: torch.Tensor, predicted: torch.Tensor) -> torch.Tensor:
    """Mean over the texts of the mean squared distance to explanations of its class, less that to the others' (eq. 20).

    The paper adds both terms, one to be made small and one to be made large: a loss has their difference. A text
    without a mate of its class, or of another, has no such term.
    """
    squared = (r[:, None] - r[None]).square().sum(-1)
    same = predicted[:, None] == predicted[None]
    off = ~torch.eye(len(r), dtype=torch.bool, device=r.device)

    def mean(of: torch.Tensor) -> torch.Tensor:
        return (squared * of).sum(1) / of.sum(1).clamp_min(1)

    return (mean(same & off) - mean(~same)).mean()


def check_finite(terms: Mapping[str, torch.Tensor], step: int, texts: Mapping[str, Sequence[str]]) -> None:
    """Raise ModelError naming step, term and the ids of the term's texts where a loss is not finite."""
    for name, value in terms.items():
        number = float(value.detach())
        if not math.isfinite(number):
            raise ModelError(f"step {step}: the loss {name!r} is {number}; {divergence_advice(texts[name])}")


def divergence_advice(texts: Sequence[str]) -> str:
    """What to do about numbers that are not finite, and the ids of the texts that they come from."""
    return f"lower the learning rates. Texts of the batch: {', '.join(texts)}"
