"""Losses that make an explanation comprehensive, sufficient or consistent (IvRA 2.2 and appendix B)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.nn import functional

from explearn.data.alignment import NO_WORD
from explearn.errors import ModelError
from explearn.metrics.faithfulness import top_count
from explearn.models.encoding import Batch
from explearn.models.gradients import content_mask

GATE_FLOOR = 1e-12
"""Weight left to a deleted token in attention: nothing in float32, and its logarithm has a gradient."""


@dataclass(frozen=True, slots=True)
class Words:
    """Which word each token of a batch belongs to.

    owner: int64, (b, n), `most` at tokens of no word. present: bool, (b, most), words that have a token. most: words
    of the longest text.
    """

    owner: torch.Tensor
    present: torch.Tensor
    most: int

    @classmethod
    def of(cls, batch: Batch) -> Words:
        most = max(1, *(len(e.words) for e in batch.encodings))
        length = batch.input_ids.shape[1]
        rows = [[*e.word_ids, *[NO_WORD] * (length - len(e))] for e in batch.encodings]
        owner = torch.tensor(rows, device=batch.input_ids.device)
        owner = owner.masked_fill(owner == NO_WORD, most)
        present = torch.zeros(len(rows), most + 1, dtype=torch.bool, device=owner.device).scatter_(1, owner, True)
        return cls(owner, present[:, :most], most)

    def pool(self, r: torch.Tensor) -> torch.Tensor:
        """Sum over each word's tokens, (b, most) from (b, n)."""
        return r.new_zeros(len(r), self.most + 1).scatter_add(1, self.owner, r)[:, : self.most]

    def spread(self, values: torch.Tensor, other: float) -> torch.Tensor:
        """Each token gets its word's value, tokens of no word `other`: (b, n) from (b, most)."""
        return functional.pad(values, (0, 1), value=other).gather(1, self.owner)


def top_words(r: torch.Tensor, words: Words, percent: int) -> torch.Tensor:
    """t^k: 1 at the tokens of the top `percent` of each text's words, else 0, (b, n); straight-through.

    As many words as the metric takes (`top_count`), by the sum of r over a word's tokens, then by position. The choice
    has no gradient; backward, it is taken for the word's share of r times the number of words, so that a word's weight
    grows where the loss would have it chosen.
    """
    scores = words.pool(r).masked_fill(~words.present, -1.0)
    rank = torch.empty_like(scores, dtype=torch.int64)
    order = scores.detach().argsort(dim=1, descending=True, stable=True)
    rank.scatter_(1, order, torch.arange(words.most, device=r.device).expand_as(order))
    totals = words.present.sum(1)
    counts = torch.tensor([top_count(max(1, total), percent) for total in totals.tolist()], device=r.device)
    hard = ((rank < counts[:, None]) & words.present).to(scores.dtype)
    soft = scores * totals[:, None] * words.present
    return words.spread(hard + soft - soft.detach(), 0.0)


def gated_inputs(model: torch.nn.Module, batch: Batch, gate: torch.Tensor) -> dict[str, Any]:
    """Inputs of a classifier that sees the tokens whose gate is 1 alone, as if the others had been deleted.

    A token's weight in every attention is multiplied by its gate, and positions are counted over the tokens that
    remain. So the logits are those of the shortened text, and still have a gradient at the gates of the others.

    Args:
        gate: (b, n), 0 or 1; special tokens and padding are seen to here.
    """
    config: Any = model.config
    content = content_mask(batch)
    real = batch.attention_mask.bool()
    kept = (gate.detach() > 0.5) | ~content
    weight = torch.where(content, gate.clamp_min(GATE_FLOOR), 1.0)
    # clamp has no gradient below its bound; the gate's own passes through.
    weight = weight + (gate - gate.detach()) * (content & ~kept)
    bias = weight.log().masked_fill(~real, torch.finfo(weight.dtype).min)
    positions = ((kept & real).long().cumsum(1) - 1).clamp_min(0)
    if config.model_type in ("roberta", "xlm-roberta", "camembert"):
        positions = positions + config.pad_token_id + 1
    length = gate.shape[1]
    inputs: dict[str, Any] = batch.model_inputs()
    return {**inputs, "attention_mask": bias[:, None, None].expand(-1, 1, length, -1), "position_ids": positions}


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

        margin  mu + max(-mu, CE(t^k) - CE(x))   (eq. 11, its sign set so that the loss falls as CE(t^k) does)
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

    Explanations are compared position by position; a position that a text has not has 0 there, raised to a small
    constant that keeps KL finite.

    Args:
        r: (b, n), first position that of the first token. states: H, (b, d).
    """
    logs = r.clamp_min(1e-4).log()
    divergence = (r * logs).sum(1)[:, None] - r @ logs.T
    pairs = ~torch.eye(len(r), dtype=torch.bool, device=r.device)
    # cdist has no gradient where a distance is 0.
    distance = ((states[:, None] - states[None]).square().sum(-1) + 1e-12).sqrt()
    return (divergence / (distance + epsilon))[pairs].mean()


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


def check_finite(terms: dict[str, torch.Tensor], step: int, ids: Sequence[str]) -> None:
    """Raise ModelError naming step, term and texts where a loss is not finite."""
    for name, value in terms.items():
        number = float(value.detach())
        if not math.isfinite(number):
            raise ModelError(
                f"step {step}: the loss {name!r} is {number}; lower the learning rates. Texts of the batch: "
                f"{', '.join(ids)}"
            )
