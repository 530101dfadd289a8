"""Generic attention explainability (GAE), over all heads or over those that matter."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from explearn.core.validation import Fraction, Section
from explearn.lens.listed_head import check_reads
from explearn.lens.watch import check_differentiable, content_mask, differentiate
from explearn.methods.base.explainer import About, Batch, BatchExplainer, BatchScores
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
        needs={"attentions", "gradients"},
    )
    passes = 4
    """On long texts the graph's attention matrices and their gradients take more memory than all other activations; on
    a CPU, batches a quarter of the budget are faster too (2 cores, texts of 20 and of 256 sub-tokens)."""

    def check(self, classifier: TransformerPredictor) -> None:
        check_differentiable(classifier)
        check_reads(classifier)

    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        run = differentiate(classifier, batch, targets, attentions=True)
        attentions = [self.masked(attention, batch) for attention in run.attentions]
        row = gae_row(attentions, run.attention_gradients, run.reads)
        return BatchScores(row, run.logits, run.targets)

    def masked(self, attention: Tensor, batch: Batch) -> Tensor:
        """Return one layer's attention, with 0 for the heads that do not count; here all do."""
        return attention


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
        needs={"attentions", "gradients"},
    )

    class Options(Section):
        share: Fraction = 0.5
        """Between 0 and 1; with 1 nearly all heads are kept."""

    def masked(self, attention: Tensor, batch: Batch) -> Tensor:
        heads = specialised(attention, batch, self.options.share)
        return attention.masked_fill(heads[..., None, None], 0)


def gae_row(attentions: Sequence[Tensor], gradients: Sequence[Tensor], reads: Tensor) -> Tensor:
    """Row of R of the token that the head reads, (batch, tokens); Chefer et al. (2021), equations 5 and 6.

    Args:
        attentions: A of each layer, (batch, heads, queries, keys), first layer first.
        gradients: df / dA of each layer, as A.
        reads: how much of each token the head reads, (batch, tokens).
    """
    row = reads
    for layer in reversed(range(len(attentions))):
        relevance = (attentions[layer] * gradients[layer]).clamp(min=0).mean(1)
        row = row + torch.einsum("bq,bqk->bk", row, relevance)
    return row


def specialised(attention: Tensor, batch: Batch, share: float) -> Tensor:
    """Heads that are positional or attend to special tokens, as MaskedGAE says; bool, (batch, heads)."""
    content = content_mask(batch).to(attention.dtype)
    length = batch.attention_mask.sum(-1, keepdim=True).to(attention.dtype)
    words = content.sum(-1, keepdim=True)
    to_next = torch.einsum("bhq,bq->bh", attention.diagonal(1, -2, -1), content[:, :-1])
    to_previous = torch.einsum("bhq,bq->bh", attention.diagonal(-1, -2, -1), content[:, 1:])
    to_special = torch.einsum("bhqk,bq,bk->bh", attention, content, 1 - content)
    evenly_next = 1 / length
    evenly_special = 1 - words / length

    def holds_most(total: Tensor, evenly: Tensor) -> Tensor:
        return total / words.clamp(min=1) - evenly >= share * (1 - evenly)

    positional = holds_most(to_next, evenly_next) | holds_most(to_previous, evenly_next)
    return positional | holds_most(to_special, evenly_special)
