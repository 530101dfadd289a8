"""CAT and AttCAT: hidden states times their gradients, added up over the layers."""

from __future__ import annotations

import torch
from torch import Tensor

from explearn.core.validation import Section
from explearn.lens.watch import check_differentiable, content_mask, differentiate
from explearn.methods.base.explainer import About, Batch, BatchExplainer, BatchScores, resolve_targets
from explearn.predictors.transformer import TransformerPredictor


class CAT(BatchExplainer):
    """Hidden states times their gradients, added up over the layers.

    Class activation tokens (Qiang et al., 2022): s_j = sum_l sum_d x_l[j, d] * df / dx_l[j, d].

    x_l: input of block l, so that the embeddings count and the last layer's output does not; f: the target's logit.
    Signed. The sum over layers counts what passes through several of them several times and adds up to no known number:
    a word gets the highest score of its pieces.
    """

    about = About(
        name="cat",
        family="relevance",
        cost="one forward and one backward pass",
        needs={"gradients"},
    )
    signed = True
    passes = 4
    """On long texts the graph's attention matrices and their gradients take more memory than all other activations; on
    a CPU, batches a quarter of the budget are faster too (2 cores, texts of 20 and of 256 sub-tokens)."""

    class Options(Section):
        mask_special: bool = False
        """Explain a pass in which no token attends to special tokens, as in the authors' notebooks. The target and the
        probabilities come from the plain pass, an additional forward pass."""

    check = staticmethod(check_differentiable)

    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        if self.options.mask_special:
            with torch.inference_mode():
                logits = classifier.logits(batch)
            content = content_mask(batch)
            # A text of which nothing but special tokens is left needs them: attention to nothing is not defined.
            seen = torch.where(content.any(-1, keepdim=True), content, batch.attention_mask.bool())
            run = differentiate(classifier, batch, resolve_targets(logits, targets), inputs=True, keys=seen)
        else:
            run = differentiate(classifier, batch, targets, inputs=True)
            logits = run.logits
        real = batch.attention_mask.to(run.inputs[0].dtype)
        scores = torch.zeros_like(real)
        for layer, state in enumerate(run.inputs):
            products = (state * run.input_gradients[layer]).sum(-1)
            scores += products * self.weights(run.attentions[layer], real)
        return BatchScores(scores, logits, run.targets)

    def weights(self, attention: Tensor, real: Tensor) -> Tensor:
        """Weight of each token in one layer, (batch, tokens).

        Args:
            attention: (batch, heads, queries, keys).
            real: (batch, tokens), 1, or 0 at padding.
        """
        return torch.ones_like(real)


class AttCAT(CAT):
    """Hidden states times their gradients, weighted by attention to the token, added up over the layers.

    Attentive class activation tokens (Qiang et al., 2022): s_j = sum_l a_l[j] sum_d x_l[j, d] * df / dx_l[j, d].

    a_l[j]: mean over heads and query tokens of A[l, h, i, j], the attention that token j receives in layer l; padding
    does not count among the queries. Otherwise as CAT, with the same option; where special tokens are masked, they get
    no attention and a score of 0.
    """

    about = About(
        name="attcat",
        family="relevance",
        cost="one forward and one backward pass",
        needs={"attentions", "gradients"},
    )

    def weights(self, attention: Tensor, real: Tensor) -> Tensor:
        return torch.einsum("bhqk,bq->bk", attention, real) / (attention.shape[1] * real.sum(-1, keepdim=True))
