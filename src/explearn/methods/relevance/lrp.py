"""Layer-wise relevance propagation (LRP) after Chefer et al. (2021): partial, full, and times attention's gradient."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
from torch import nn

from explearn.core.errors import UnsupportedError
from explearn.core.validation import LayerIndex, Section
from explearn.lens.anatomy import TracedPass, dissect, trace_block
from explearn.lens.attention import resolve_layer
from explearn.methods.base.explainer import BatchExplainer, BatchScores, resolve_targets
from explearn.methods.info import About
from explearn.methods.relevance.rules import RULES, Rules, through_head, to_attention, to_input
from explearn.model.architectures import architecture
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch

RuleName = Literal["conserving", "doubling"]
ClsScore = Literal["own", "original"]


class LRP(BatchExplainer, ABC):
    """What partial LRP, full LRP and transformer attribution share.

    All arithmetic is in float64, on a copy of the model: LRP divides by sums that come near 0. In float32, padding
    alone moves full LRP by up to 3 % of a text's largest score with the conserving rules, 21 % with the doubling ones
    (random weights, 24 layers); in float64 by 10^-8 at most. bf16 and fp16 decide the logits, and with them the class
    explained, by a forward pass of their own. The inputs of all blocks are held, and one block's intermediates at a
    time, for which each block is computed twice.
    """

    reads_weights = True
    through_logits: ClassVar[bool] = True
    """Whether relevance passes the attention logits, for which there are rules in plain attention alone."""
    passes = 2  # A text in float64 takes the memory of two.

    @property
    def rules(self) -> Rules:
        """The rules that relevance is propagated by."""
        return RULES[getattr(self.options, "rules", "conserving")]

    def check(self, classifier: Classifier) -> None:
        """Raise UnsupportedError for an architecture without rules, and on MPS devices, which have no float64."""
        dissect(classifier.model)
        if self.through_logits and architecture(classifier.model.config).attention != "projections":
            raise UnsupportedError(
                f"{self.about.name} has no rule for what a {classifier.model.config.model_type!r} model adds to its "
                "attention logits for positions; lrp, attn_lrp, gae and decompx explain it"
            )
        if classifier.device.type == "mps":
            raise UnsupportedError(
                "relevance propagation needs float64, which MPS devices do not have; use device cpu, or attn_lrp"
            )

    @abstractmethod
    def propagate(
        self, run: TracedPass, targets: torch.Tensor, relevance: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Scores, (batch, tokens), and completeness errors or None, from `relevance` of the last block's output."""

    def original_cls_score(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The first token's score in the original code, (batch,)."""
        return torch.zeros_like(scores[:, 0])

    @torch.no_grad()
    def score_batch(self, classifier: Classifier, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        run = TracedPass.run(copy.deepcopy(classifier.model).double(), batch)
        low_precision = classifier.dtype in (torch.bfloat16, torch.float16)
        logits = classifier.logits(batch) if low_precision else run.logits
        targets = resolve_targets(logits, targets)
        start = nn.functional.one_hot(targets, logits.shape[-1]).to(run.logits)
        relevance = through_head(self.rules, run.anatomy.head, run.output, run.activated, start)
        scores, error = self.propagate(run, targets, relevance)
        if self.options.cls_score == "original":
            scores[:, 0] = self.original_cls_score(scores, batch.attention_mask.bool())
        result_type = torch.float64 if classifier.model.dtype == torch.float64 else torch.float32
        return BatchScores(scores.to(result_type), logits.to(result_type), targets, error)


class PartialLRP(LRP):
    """Relevance passed down from the class to the last layer's attention, from [CLS].

    Partial LRP: relevance of the last layer's attention from [CLS].

    score_j = mean over heads of max(0, C[L, h, CLS, j]), with C the relevance of the attention probabilities. Where the
    relevance that reaches the last layer's attention is negative, which the doubling rules allow, all scores are 0.

    Sources: Voita et al. (2019); Chefer et al. (2021), whose rules and baseline this is.
    """

    about = About(
        name="lrp",
        family="relevance",
        cost="one forward pass, and relevance through the last layer, in float64",
        needs=frozenset({"attentions"}),
        uncounted=True,
    )
    through_logits = False

    class Options(Section):
        rules: RuleName = "conserving"
        """`conserving`; or `doubling`, as the original code runs this baseline. See `propagation`."""
        cls_score: ClsScore = "own"
        """What stands at [CLS], which no attribution shows: its `own` score, or 0 as in the `original` code."""

    def propagate(
        self, run: TracedPass, targets: torch.Tensor, relevance: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        reached = to_attention(self.rules, run.anatomy.blocks[-1], run.block(-1), relevance)
        return reached.attention[:, :, 0].clamp(min=0).mean(1), None


class FullLRP(LRP):
    """Relevance passed down from the class through all layers to the embeddings.

    Full LRP: relevance of each token's embedding, summed over its features.

    It stops at the output of the embeddings, of which word, position and segment are parts; where a projection follows
    (ALBERT, small ELECTRA), before that. Signed. With the conserving rules the scores of a text, special tokens
    included, add up to 1; completeness_error says by how much they miss it. With the doubling rules a total has no
    meaning and grows with the depth, to 10^4 in 4 layers.

    Sources: Bach et al. (2015); Chefer et al. (2021), whose rules and baseline this is.
    """

    about = About(
        name="full_lrp",
        family="relevance",
        cost="two forward passes and one of relevance, in float64",
        uncounted=True,
    )
    aggregation = "sum"
    signed = True

    class Options(Section):
        rules: RuleName = "conserving"
        """"""
        cls_score: ClsScore = "own"
        """"""

    def propagate(
        self, run: TracedPass, targets: torch.Tensor, relevance: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        for layer in reversed(range(len(run.anatomy.blocks))):
            block, kept = run.anatomy.blocks[layer], run.block(layer)
            relevance = to_input(self.rules, block, kept, to_attention(self.rules, block, kept, relevance))
        if run.anatomy.projection is not None:
            relevance = self.rules.linear(relevance, run.embedded, run.anatomy.projection.weight)
        error = (relevance.sum((1, 2)) - 1).abs() if self.options.rules == "conserving" else None
        return relevance.sum(-1), error


class TransformerAttribution(LRP):
    """Relevance of each layer's attention times its gradient, rolled out to [CLS].

    Transformer attribution: each layer's attention relevance times its gradient, rolled out.

    W_l = mean_h max(0, G[l, h] * C[l, h]), with C the relevance of the attention probabilities by the conserving rules
    and G the gradient of the target's logit in them; B_l = rows of (W_l + I) brought to sum 1; J = B_L ... B_start; the
    score of token j is J[CLS, j]. The row is carried from the top layer down as a vector.

    Source: Chefer et al. (2021, section 3); the rows are normalised as in their code.
    """

    about = About(
        name="transformer_attribution",
        family="relevance",
        cost="two forward passes, one backward and one of relevance, in float64",
        needs=frozenset({"attentions", "gradients"}),
        uncounted=True,
    )

    class Options(Section):
        start_layer: LayerIndex = 0
        """The lowest layer that counts, from 0 or, if negative, from the last. The original code's default is
        11, the last layer of the base models."""
        cls_score: ClsScore = "own"
        """What stands at [CLS], which no attribution shows: its `own` score, or the row's minimum as in the
        `original` code."""

    def check(self, classifier: Classifier) -> None:
        """As in LRP; raises ParamsError when there is no such layer."""
        super().check(classifier)
        resolve_layer(classifier.model, self.options.start_layer)

    def propagate(
        self, run: TracedPass, targets: torch.Tensor, relevance: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        blocks = run.anatomy.blocks
        first = self.options.start_layer % len(blocks)
        with torch.enable_grad():
            hidden, head = run.output.detach().requires_grad_(), run.anatomy.head
            logits = head.classifier(head.activation(head.dense(hidden[:, 0])))
            (gradient,) = torch.autograd.grad(logits.gather(-1, targets[:, None]).sum(), hidden)
        row = torch.zeros_like(run.output[:, :, 0])
        row[:, 0] = 1
        for layer in reversed(range(first, len(blocks))):
            with torch.enable_grad():
                hidden = run.calls[layer].hidden.detach().requires_grad_()
                kept = trace_block(blocks[layer], run.calls[layer], hidden)
                attention_gradient, gradient = torch.autograd.grad(kept.result, (kept.attention, hidden), gradient)
            reached = to_attention(self.rules, blocks[layer], kept, relevance)
            weights = attention_gradient.mul_(reached.attention).clamp_(min=0).mean(1)
            row = row / (weights.sum(-1) + 1)
            row = torch.einsum("bq,bqk->bk", row, weights) + row
            if layer > first:
                relevance = to_input(self.rules, blocks[layer], kept, reached)
        return row, None

    def original_cls_score(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return scores.masked_fill(~mask, torch.inf).amin(-1)
