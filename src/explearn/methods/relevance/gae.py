"""Generic attention explainability (GAE), over all heads or over those that matter."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from explearn.core.validation import Fraction, Section
from explearn.lens.watch import check_differentiable, content_mask, differentiate
from explearn.methods.base.explainer import BatchExplainer, BatchScores
from explearn.methods.info import About
from explearn.predictors.encoding import Batch
from explearn.predictors.transformer import TransformerPredictor


class GAE(BatchExplainer):
    """Each layer's attention times its gradient, positive part, added up through the layers to [CLS].

    Generic attention explainability (Chefer et al., 2021, equations 5 and 6).

    R = I, then for each layer from the first up R <- R + E_l R, with E_l = mean_h max(0, A[l, h] * df / dA[l, h]); the
    score of token j is R[CLS, j]. f: the target's logit. Since R = (I + E_L) ... (I + E_1), row CLS is carried from the
    top layer down as a vector, r <- r + r E_l, and no matrix is multiplied with a matrix. Not signed.
    """

    about = About(
        name="gae",
        family="relevance",
        cost="one forward and one backward pass",
        needs=frozenset({"attentions", "gradients"}),
    )
    passes = 4
    """On long texts the graph's attention matrices and their gradients take more memory than all other activations; on
    a CPU, batches a quarter of the budget are faster too (2 cores, texts of 20 and of 256 sub-tokens)."""

    check = staticmethod(check_differentiable)

    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        passed = differentiate(classifier, batch, targets, attentions=True)
        heads = [self.kept_heads(attention, batch) for attention in passed.attentions]
        row = gae_row(passed.attentions, passed.attention_gradients, passed.reads, heads)
        return BatchScores(row, passed.logits, passed.targets)

    def kept_heads(self, attention: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Return the heads of one layer that count, bool, (batch, heads), by its attention; here all."""
        return torch.ones(attention.shape[:2], dtype=torch.bool, device=attention.device)


class MaskedGAE(GAE):
    """GAE over the heads that matter alone: those that are neither positional nor attend to separators.

    GAE over the heads that matter (after Mask-LRP, Song et al., 2024): the maps of the others are set to 0.

    The mean over heads still divides by the number of all heads, so that no score is above GAE's. A layer without kept
    heads passes relevance on as it is.

    Which heads are kept depends only on the text and the classifier, never on other texts: all but those with a role
    that is not about what the words mean (roles: Voita et al., 2019; attention to separators: Clark et al., 2019). A
    positional head puts most of its attention on the next token, or most on the one before; a separator head puts most
    on special tokens. Both are means over the text's sub-tokens as queries, special ones left out. Since even
    attention, too, puts much of itself there when a text is short, "most" means (s - u) / (1 - u) >= `share`, with s
    the part of its attention there, and u that of even attention.

    Syntactic heads are not looked for: that takes a parser. Song et al. count syntactic and positional heads as those
    to keep; ExpNet section 4.3, which is followed here, as those to mask.
    """

    about = About(
        name="mgae",
        family="relevance",
        cost="one forward and one backward pass",
        needs=frozenset({"attentions", "gradients"}),
    )

    class Options(Section):
        share: Fraction = 0.5
        """Between 0 and 1; with 1 nearly all heads are kept."""

    def kept_heads(self, attention: torch.Tensor, batch: Batch) -> torch.Tensor:
        return ~specialised(attention, batch, self.options.share)


def gae_row(
    attentions: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor],
    reads: torch.Tensor,
    heads: Sequence[torch.Tensor] | None = None,
) -> torch.Tensor:
    """Row of R of the token that the head reads, (batch, tokens); Chefer et al. (2021), equations 5 and 6.

    Args:
        attentions, gradients: A and df / dA of each layer, (batch, heads, queries, keys), first layer first.
        reads: how much of each token the head reads, (batch, tokens).
        heads: those that count in each layer, bool, (batch, heads) (default: all).
    """
    row = reads
    for layer in reversed(range(len(attentions))):
        relevance = (attentions[layer] * gradients[layer]).clamp(min=0)
        kept = row.new_ones(relevance.shape[:2]) if heads is None else heads[layer].to(row)
        row = row + torch.einsum("bq,bh,bhqk->bk", row, kept / kept.shape[1], relevance)
    return row


def specialised(attention: torch.Tensor, batch: Batch, share: float) -> torch.Tensor:
    """Heads that are positional or attend to special tokens, as MaskedGAE says; bool, (batch, heads)."""
    content = content_mask(batch).to(attention.dtype)
    length = batch.attention_mask.sum(-1, keepdim=True).to(attention.dtype)
    words = content.sum(-1, keepdim=True)
    to_next = torch.einsum("bhq,bq->bh", attention.diagonal(1, -2, -1), content[:, :-1])
    to_previous = torch.einsum("bhq,bq->bh", attention.diagonal(-1, -2, -1), content[:, 1:])
    to_special = torch.einsum("bhqk,bq,bk->bh", attention, content, 1 - content)
    roles = ((to_next, 1 / length), (to_previous, 1 / length), (to_special, 1 - words / length))
    held = [total / words.clamp(min=1) - even >= share * (1 - even) for total, even in roles]
    return torch.stack(held).any(0)
