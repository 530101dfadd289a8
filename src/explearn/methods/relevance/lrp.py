"""Layer-wise relevance propagation (LRP) after Chefer et al. (2021): partial, full, and times attention's gradient.

The rules pass on relevance itself, in proportion to each input's contribution; they need every sum and product of a
block (`anatomy.BlockTrace`). Tanh, ReLU, GELU, softmax, layer norms and the scaling of attention pass relevance on
unchanged, and biases take none. Texts of a batch do not affect each other, and positions of padding get 0.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from explearn.core.errors import UnsupportedError
from explearn.core.validation import LayerIndex, Section
from explearn.lens.anatomy import (
    BlockTrace,
    ClassificationHead,
    EncoderBlock,
    TracedPass,
    dissect,
    merge_heads,
    split_heads,
    trace_block,
)
from explearn.lens.attention import resolve_layer
from explearn.lens.listed_head import check_listed_head
from explearn.methods.base.explainer import About, Batch, BatchExplainer, BatchScores, resolve_targets
from explearn.predictors.architectures import architecture
from explearn.predictors.quantised import dequantised, has_quantised, weight_of
from explearn.predictors.transformer import TransformerPredictor

RuleName = Literal["conserving", "doubling"]

STABILISER = 1e-9
"""Constant added to denominators of any sign, as Chefer et al. do."""

Pair = tuple[Tensor, Tensor]


def divide(relevance: Tensor, value: Tensor) -> Tensor:
    """Return relevance / (value + STABILISER), 0 where `value` is 0; the divisor is never 0."""
    divisor = value + STABILISER
    divisor = divisor.masked_fill(divisor == 0, STABILISER)
    return (relevance / divisor).masked_fill(value == 0, 0)


def add(relevance: Tensor, first: Tensor, second: Tensor) -> Pair:
    """Propagate through a + b: R_a = a R / (a + b), R_b = b R / (a + b). All have one shape, batch first."""
    share = divide(relevance, first + second)
    return first * share, second * share


def add_rescaled(relevance: Tensor, first: Tensor, second: Tensor) -> Pair:
    """Propagate as `add` does, then rescale each text's totals to the ratio |sum R_a| : |sum R_b|.

    Together they are sum R. This also keeps them from blowing up where a + b is near 0.
    """
    axes = tuple(range(1, relevance.ndim))
    parts = add(relevance, first, second)
    total = relevance.sum(axes, keepdim=True)
    sums = [part.sum(axes, keepdim=True) for part in parts]
    size = sums[0].abs() + sums[1].abs()
    for part, part_sum in zip(parts, sums, strict=True):
        part.mul_(divide(divide(part_sum.abs(), size) * total, part_sum))
    return parts


def share_once(relevance: Tensor, positive: Tensor, negative: Tensor) -> Pair:
    """Return S1 = S2 = R / (z1 + z2)."""
    share = divide(relevance, positive + negative)
    return share, share


def share_twice(relevance: Tensor, positive: Tensor, negative: Tensor) -> Pair:
    """Return S1 = R / z1, S2 = R / z2: each gets all of R, so the total doubles unless one of them is 0."""
    return divide(relevance, positive), divide(relevance, negative)


class Rules(NamedTuple):
    """The rules by which linear maps and sums pass relevance to their inputs.

    Attributes:
        shares: (R, z1, z2) -> (S1, S2), relevance for each unit of z1 = W+ x+ >= 0 and of z2 = W- x- >= 0, at a linear
            map.
        add: (R, a, b) -> (R_a, R_b), at a sum.
    """

    shares: Callable[[Tensor, Tensor, Tensor], Pair]
    add: Callable[[Tensor, Tensor, Tensor], Pair]

    def linear(self, relevance: Tensor, inputs: Tensor, weight: Tensor) -> Tensor:
        """Propagate through x -> W x, where only products w x > 0 count (alpha1-beta0; Bach et al., 2015).

        With the positive and negative parts W+, W- and x+, x-: R_in = x+ * (W+^T S1) + x- * (W-^T S2).

        Args:
            relevance: R, (..., d_out).
            inputs: x, (..., d_in).
            weight: W, (d_out, d_in).

        Returns:
            Relevance of the inputs, (..., d_in).
        """
        positive = inputs.clamp(min=0)
        negative = inputs.clamp(max=0)
        positive_weight = weight.clamp(min=0)
        negative_weight = weight.clamp(max=0)
        first, second = self.shares(relevance, positive @ positive_weight.T, negative @ negative_weight.T)
        return positive.mul_(first @ positive_weight).add_(negative.mul_(second @ negative_weight))


RULES = {"conserving": Rules(share_once, add_rescaled), "doubling": Rules(share_twice, add)}
"""The rules of Chefer et al. (2021, section 3).

conserving: the relevance at a part's inputs adds up to the relevance at its outputs. Exceptions, all rare: an output
without a product w x > 0 and an input that is exactly 0 pass nothing on, and the stabiliser keeps a few parts in 10^9.
doubling: their code runs its baselines partial and full LRP with these rules. Relevance can blow up or change its sign
at sums.
"""


def join(value: Tensor, relevances: Sequence[Tensor]) -> Tensor:
    """Return the relevance of a value x that is used several times: x * sum_i R_i / x."""
    return value * cast(Tensor, sum(divide(relevance, value) for relevance in relevances))


def product(relevance: Tensor, left: Tensor, right: Tensor, value: Tensor) -> Pair:
    """Propagate through value = left @ right, half to each: R_left = left * (S right^T) / 2 with S = R / value."""
    share = divide(relevance, value)
    return (
        (share @ right.transpose(-1, -2)).mul_(left).mul_(0.5),
        (left.transpose(-1, -2) @ share).mul_(right).mul_(0.5),
    )


class AttentionRelevance(NamedTuple):
    """The relevance inside a block at the level of the attention; the three parts together are the block's relevance.

    Attributes:
        attention: of the attention probabilities, (batch, heads, tokens, tokens).
        value: of the values, (batch, heads, tokens, d / heads).
        skipped: of the block's input through the residual connection, (batch, tokens, d).
    """

    attention: Tensor
    value: Tensor
    skipped: Tensor


def through_head(
    rules: Rules, head: ClassificationHead, hidden: Tensor, activated: Tensor, relevance: Tensor
) -> Tensor:
    """Propagate relevance from the logits to the last block's output.

    Args:
        rules: rules of linear maps and sums.
        head: the classification head.
        hidden: last block's output, (batch, tokens, d).
        activated: head.activation(head.dense(first token)), (batch, d).
        relevance: of the logits, (batch, C).

    Returns:
        Relevance of the last block's output, (batch, tokens, d), 0 but at the first token.
    """
    relevance = rules.linear(relevance, activated, weight_of(head.classifier))
    first = hidden[:, 0]
    result = torch.zeros_like(hidden)
    result[:, 0] = join(first, [rules.linear(relevance, first, weight_of(head.dense))])
    return result


def to_attention(rules: Rules, block: EncoderBlock, trace: BlockTrace, relevance: Tensor) -> AttentionRelevance:
    """Propagate relevance from a block's output, (batch, tokens, d), to its attention probabilities and values."""
    contracted, middle = rules.add(relevance, trace.contracted, trace.middle)
    activated = rules.linear(contracted, trace.activated, weight_of(block.contract))
    expanded = rules.linear(activated, trace.middle, weight_of(block.expand))
    attention_sum = join(trace.middle, [middle, expanded])
    attended, skipped = rules.add(attention_sum, trace.attended, trace.input)
    context = split_heads(rules.linear(attended, trace.context, weight_of(block.output)), block.heads)
    attention, value = product(context, trace.attention, trace.value, split_heads(trace.context, block.heads))
    return AttentionRelevance(attention, value, skipped)


def to_input(rules: Rules, block: EncoderBlock, trace: BlockTrace, reached: AttentionRelevance) -> Tensor:
    """Propagate relevance from a block's attention probabilities and values to its input, (batch, tokens, d)."""
    logits = trace.query @ trace.key.transpose(-1, -2)
    # Adding the padding mask is a sum as well. The mask is 0 wherever there is relevance; only the stabiliser has an
    # effect.
    scaled = logits * trace.query.shape[-1] ** -0.5
    relevance, _ = rules.add(reached.attention, scaled, scaled.new_zeros(()))
    query, key = product(relevance, trace.query, trace.key.transpose(-1, -2), logits)
    parts = [
        rules.linear(merge_heads(query), trace.input, weight_of(block.query)),
        rules.linear(merge_heads(key.transpose(-1, -2)), trace.input, weight_of(block.key)),
        rules.linear(merge_heads(reached.value), trace.input, weight_of(block.value)),
    ]
    return join(trace.input, [reached.skipped, join(trace.input, parts)])


class LRP(BatchExplainer, ABC):
    """The base of partial LRP, full LRP and transformer attribution.

    All arithmetic is in float64, on a copy of the model, since LRP divides by sums that come near 0. In float32,
    padding alone changes full LRP by up to 3 % of a text's largest score with the conserving rules, 21 % with the
    doubling ones (random weights, 24 layers); in float64 by 10^-8 at most. With bf16 and fp16, a separate forward pass
    in that precision gives the logits, and so the class explained. The inputs of all blocks are held in memory, but the
    intermediates of only one block at a time, so each block is computed twice.
    """

    reads_weights = True
    through_logits: ClassVar[bool] = True
    """True if relevance passes the attention logits, which have rules only in plain attention."""
    passes = 2  # A text in float64 takes as much memory as two in float32.

    @property
    def rules(self) -> Rules:
        """Return the rules by which relevance is propagated."""
        return RULES[getattr(self.options, "rules", "conserving")]

    def check(self, classifier: TransformerPredictor) -> None:
        """Check that there are rules for the architecture, and that the device has float64.

        Raises:
            UnsupportedError: there are not, or it has not (MPS).
        """
        dissect(classifier.model)
        if self.through_logits and architecture(classifier.model.config).attention != "projections":
            raise UnsupportedError(
                f"{self.about.name} has no rule for the position terms that a {classifier.model.config.model_type!r} "
                "model adds to its attention logits; use lrp, attn_lrp, gae or decompx"
            )
        if classifier.device.type == "mps":
            raise UnsupportedError(
                "relevance propagation needs float64, which MPS devices do not have; use device cpu, or attn_lrp"
            )
        check_listed_head(classifier)

    @abstractmethod
    def propagate(self, run: TracedPass, targets: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return scores, (batch, tokens), and completeness errors or None, from the last block's output `relevance`."""

    @torch.no_grad()
    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        # Quotients of small numbers need float64. A model on several devices leaves no room for a copy.
        model = classifier.model
        if classifier.spread is None:
            model = dequantised(copy.deepcopy(model)).double()
        run = TracedPass.run(model, batch)
        logits = run.logits
        if classifier.dtype in (torch.bfloat16, torch.float16) or has_quantised(classifier.model):
            logits = classifier.logits(batch)
        targets = resolve_targets(logits, targets)
        start = nn.functional.one_hot(targets, logits.shape[-1]).to(run.logits)
        relevance = through_head(self.rules, run.anatomy.head, run.output, run.activated, start)
        scores, error = self.propagate(run, targets, relevance)
        dtype = torch.promote_types(classifier.model.dtype, torch.float32)
        return BatchScores(scores.to(dtype), logits.to(dtype), targets, error)


class RuleOptions(Section):
    rules: RuleName = "conserving"
    """`conserving`, or `doubling`, which the original code uses for its baselines. See `RULES`."""


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
        needs={"attentions"},
        uncounted=True,
    )
    through_logits = False
    Options = RuleOptions

    def propagate(self, run: TracedPass, targets: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor | None]:
        reached = to_attention(self.rules, run.anatomy.blocks[-1], run.block(-1), relevance)
        return reached.attention[:, :, 0].clamp(min=0).mean(1), None


class FullLRP(LRP):
    """Relevance passed down from the class through all layers to the embeddings.

    Full LRP: relevance of each token's embedding, summed over its features.

    Propagation stops at the output of the embeddings, the sum of word, position and segment; if a projection follows
    (ALBERT, small ELECTRA), it stops before that. Signed. With the conserving rules the scores of a text, special
    tokens included, add up to 1; completeness_error is the difference. With the doubling rules the total has no meaning
    and grows with the depth, to 10^4 in 4 layers.

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
    Options = RuleOptions

    def propagate(self, run: TracedPass, targets: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor | None]:
        for layer in reversed(range(len(run.anatomy.blocks))):
            block = run.anatomy.blocks[layer]
            trace = run.block(layer)
            relevance = to_input(self.rules, block, trace, to_attention(self.rules, block, trace, relevance))
        if run.anatomy.projection is not None:
            relevance = self.rules.linear(relevance, run.embedded, weight_of(run.anatomy.projection))
        error = None
        if self.options.rules == "conserving":
            error = (relevance.sum((1, 2)) - 1).abs()
        return relevance.sum(-1), error


class TransformerAttribution(LRP):
    """Relevance of each layer's attention times its gradient, rolled out to [CLS].

    Transformer attribution: each layer's attention relevance times its gradient, rolled out.

    W_l = mean_h max(0, G[l, h] * C[l, h]), with C the relevance of the attention probabilities by the conserving rules
    and G the gradient of the target's logit at them; B_l = W_l + I with rows normalised to sum 1; J = B_L ... B_start;
    the score of token j is J[CLS, j]. Only this row is computed, as a vector from the top layer down.

    Source: Chefer et al. (2021, section 3); the rows are normalised as in their code.
    """

    about = About(
        name="transformer_attribution",
        family="relevance",
        cost="two forward passes, one backward and one of relevance, in float64",
        needs={"attentions", "gradients"},
        uncounted=True,
    )

    class Options(Section):
        start_layer: LayerIndex = 0
        """The lowest layer that is used, counted from 0 or, if negative, from the last. The original code's default
        is 11, the last layer of the base models."""

    def check(self, classifier: TransformerPredictor) -> None:
        """Check the classifier as LRP does.

        Raises:
            UnsupportedError: as LRP.
            ParamsError: there is no layer `start_layer`.
        """
        super().check(classifier)
        resolve_layer(classifier.model, self.options.start_layer)

    def propagate(self, run: TracedPass, targets: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor | None]:
        blocks = run.anatomy.blocks
        first = self.options.start_layer % len(blocks)
        with torch.enable_grad():
            hidden = run.output.detach().requires_grad_()
            head = run.anatomy.head
            logits = head.classifier(head.activation(head.dense(hidden[:, 0])))
            (gradient,) = torch.autograd.grad(logits.gather(-1, targets[:, None]).sum(), hidden)
        row = torch.zeros_like(run.output[:, :, 0])
        row[:, 0] = 1
        for layer in reversed(range(first, len(blocks))):
            with torch.enable_grad():
                hidden = run.calls[layer].hidden.detach().requires_grad_()
                trace = trace_block(blocks[layer], run.calls[layer], hidden)
                attention_gradient, gradient = torch.autograd.grad(trace.result, (trace.attention, hidden), gradient)
            reached = to_attention(self.rules, blocks[layer], trace, relevance)
            weights = attention_gradient.mul_(reached.attention).clamp_(min=0).mean(1)
            row = row / (weights.sum(-1) + 1)
            row = torch.einsum("bq,bqk->bk", row, weights) + row
            if layer > first:
                relevance = to_input(self.rules, blocks[layer], trace, reached)
        return row, None
