"""CAM and Grad-CAM for text: the last layer's attention from [CLS], weighted by what it does for the class."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from explearn.core.validation import Section
from explearn.lens.attention import read_weights
from explearn.lens.listed_head import check_listed_head, check_reads, head_states
from explearn.lens.watch import check_differentiable, differentiate, full_precision, watch
from explearn.methods.base.explainer import About, Batch, BatchExplainer, BatchScores, resolve_targets
from explearn.predictors.quantised import weight_of
from explearn.predictors.transformer import TransformerPredictor


class CAM(BatchExplainer):
    """Last-layer attention from [CLS], weighted by what each token's state gives to the class.

    Class activation map (after Zhou et al., 2016) on the last layer.

    s_j = mean_h A[L, h, CLS, j] * sum_k w[c, k] * g(h_j)[k]

    h_j: last hidden state of token j; g: the classification head's layers before its last (dense and activation); w:
    weights of the last, without its bias; c: the target. CAM is made for classifiers that average over positions before
    one linear layer. These read only [CLS], and through g, so each token's state is put where the head expects that of
    [CLS]: for [CLS] itself the sum over k is its logit less the bias. Attention says how much of a token [CLS] takes.
    Signed; no gradient.
    """

    reads_weights = True
    about = About(
        name="cam",
        family="relevance",
        cost="one forward pass",
        needs={"attentions"},
    )
    signed = True

    check = staticmethod(check_listed_head)

    @torch.inference_mode()
    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        with classifier.autocast():
            run = watch(classifier, batch, first_layer=-1)
            activated, last = head_states(classifier.model, run.states)
        chosen = resolve_targets(run.logits, targets)
        activation = torch.einsum("bnd,bd->bn", full_precision(activated), full_precision(weight_of(last))[chosen])
        maps = full_precision(run.attentions[-1]).mean(1)
        attention = torch.einsum("bq,bqk->bk", read_weights(classifier.model, batch).to(maps), maps)
        return BatchScores(activation * attention, full_precision(run.logits), chosen)


class GradCAM(BatchExplainer):
    """Last-layer attention, each head weighted by its mean gradient, positive part, from [CLS].

    Grad-CAM on attention (Selvaraju et al., 2017; on attention: a baseline of Chefer et al., CVPR 2021).

    M = max(0, mean_h(w_h A[L, h])), w_h = mean over all entries (i, j) of df / dA[L, h, i, j], and the score of token j
    is M[CLS, j]. L: the last layer; f: the target's logit. Heads are averaged first, then clamped. Padding counts
    neither in the means nor below, and what a causal or local mask hides does not count in the means. Not signed.
    """

    about = About(
        name="grad_cam",
        family="relevance",
        cost="one forward and one backward pass through the last layer",
        needs={"attentions", "gradients"},
    )

    class Options(Section):
        normalisation: Literal["none", "matrix"] = "none"
        """`none`, or `matrix`: (M - min M) / (max M - min M) over the whole matrix, as the original code does.
        Scores of a text then depend on rows that are not returned, but keep their order. A constant matrix, 0 / 0
        in the original, gives 0 everywhere. The original counts padding if a text has some; this does not."""

    def check(self, classifier: TransformerPredictor) -> None:
        check_differentiable(classifier)
        check_reads(classifier)

    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        run = differentiate(classifier, batch, targets, attentions=True, first_layer=-1)
        attention = run.attentions[-1]
        gradient = run.attention_gradients[-1]
        mask = batch.attention_mask.bool()
        padding = ~(mask[:, :, None] & mask[:, None])
        seen = (attention > 0) & ~padding[:, None]
        weights = (gradient * seen).sum((-1, -2)) / seen.sum((-1, -2)).clamp(min=1)
        maps = torch.einsum("bh,bhqk->bqk", weights, attention).div(attention.shape[1]).clamp(min=0)
        scores = torch.einsum("bq,bqk->bk", run.reads, maps)
        if self.options.normalisation == "matrix":
            lowest = maps.masked_fill(padding, float("inf")).amin((-1, -2))[:, None]
            spread = maps.masked_fill(padding, float("-inf")).amax((-1, -2))[:, None] - lowest
            scores = (scores - lowest) / spread.masked_fill(spread == 0, 1)
        return BatchScores(scores, run.logits, run.targets)
