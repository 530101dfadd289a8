"""Layer-wise relevance propagation (LRP) through a classifier's parts, by the rules of Chefer et al. (2021).

Relevance starts as 1 at the explained class and is handed from the outputs of each part to its inputs, in proportion to
what each input gave. Tanh, ReLU, GELU, softmax, layer norms and the scaling of attention hand it on unchanged. Biases
take none. One text knows nothing of the others in its batch, and positions of padding get 0.

Sources: Bach et al. (2015) for the alpha1-beta0 rule, Chefer et al. (2021, section 3) for matrix products and sums.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from explearn.lens.anatomy import Block, BlockTrace, Head, merge_heads, split_heads

STABILISER = 1e-9
"""Added to denominators of any sign, as Chefer et al. do."""


def divide(relevance: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """relevance / (value + STABILISER), 0 where `value` is 0; the divisor is never 0."""
    divisor = value + STABILISER
    divisor = divisor.masked_fill(divisor == 0, STABILISER)
    return (relevance / divisor).masked_fill(value == 0, 0)


def text_sum(relevance: torch.Tensor) -> torch.Tensor:
    """Sum over all but the first axis, which stay with length 1."""
    return relevance.sum(tuple(range(1, relevance.ndim)), keepdim=True)


class Rules(ABC):
    """What linear maps and sums hand to their inputs."""

    def linear(self, relevance: torch.Tensor, inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Through x -> W x, where only products w x > 0 count (alpha1-beta0).

        With W+, W- and x+, x- the positive and negative parts, z1 = W+ x+ and z2 = W- x-:
        R_in = x+ * (W+^T S1) + x- * (W-^T S2), with (S1, S2) from `shares`.

        Args:
            relevance: (..., d_out). inputs: x, (..., d_in). weight: W, (d_out, d_in).

        Returns (..., d_in).
        """
        weight = weight.to(inputs.dtype)
        positive, negative = inputs.clamp(min=0), inputs.clamp(max=0)
        positive_weight, negative_weight = weight.clamp(min=0), weight.clamp(max=0)
        first, second = self.shares(relevance, positive @ positive_weight.T, negative @ negative_weight.T)
        return positive.mul_(first @ positive_weight).add_(negative.mul_(second @ negative_weight))

    @abstractmethod
    def shares(
        self, relevance: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(S1, S2): relevance for each unit of z1 = W+ x+ (`positive`) and of z2 = W- x- (`negative`), both >= 0."""

    def add(
        self, relevance: torch.Tensor, first: torch.Tensor, second: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Through a + b: R_a = a R / (a + b), R_b = b R / (a + b). All of one shape, batch first."""
        share = divide(relevance, first + second)
        return first * share, second * share


class ConservingRules(Rules):
    """What reaches the inputs of a part adds up to what reached its outputs.

    At a linear map S1 = S2 = R / (z1 + z2). At a sum, R_a and R_b are rescaled in each text so that their totals have
    the ratio |sum R_a| : |sum R_b| and add up to sum R, which also keeps them from blowing up where a + b is near 0.
    Exceptions, all rare: an output without a product w x > 0 and an input that is exactly 0 hand nothing on, and the
    stabiliser keeps a few parts in 10^9.
    """

    def shares(
        self, relevance: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        share = divide(relevance, positive + negative)
        return share, share

    def add(
        self, relevance: torch.Tensor, first: torch.Tensor, second: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        parts = super().add(relevance, first, second)
        total, sums = text_sum(relevance), [text_sum(part) for part in parts]
        size = sums[0].abs() + sums[1].abs()
        scaled = [part.mul_(divide(divide(s.abs(), size) * total, s)) for part, s in zip(parts, sums, strict=True)]
        return scaled[0], scaled[1]


class DoublingRules(Rules):
    """At a linear map z1 and z2 are each given all of R: S1 = R / z1, S2 = R / z2. The total doubles unless one is 0.

    The code of Chefer et al. (2021) runs its baselines partial and full LRP with these rules. Sums are not rescaled, so
    relevance can blow up or turn its sign there.
    """

    def shares(
        self, relevance: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return divide(relevance, positive), divide(relevance, negative)


RULES: dict[str, type[Rules]] = {"conserving": ConservingRules, "doubling": DoublingRules}


def join(value: torch.Tensor, relevances: Sequence[torch.Tensor]) -> torch.Tensor:
    """Relevance of a value x used several times: x * sum_i R_i / x."""
    total = divide(relevances[0], value)
    for relevance in relevances[1:]:
        total = total + divide(relevance, value)
    return value * total


def product(
    relevance: torch.Tensor, left: torch.Tensor, right: torch.Tensor, value: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Through value = left @ right; each operand gets half: R_left = left * (S right^T) / 2 with S = R / value."""
    share = divide(relevance, value)
    return (
        (share @ right.transpose(-1, -2)).mul_(left).mul_(0.5),
        (left.transpose(-1, -2) @ share).mul_(right).mul_(0.5),
    )


@dataclass(frozen=True, slots=True)
class AttentionRelevance:
    """Relevance inside a block, where it has come down to the attention; together it is all of the block's.

    attention: of the attention probabilities, (batch, heads, tokens, tokens). value: of the values, (batch, heads,
    tokens, d / heads). skipped: of the block's input on the way past the attention, (batch, tokens, d).
    """

    attention: torch.Tensor
    value: torch.Tensor
    skipped: torch.Tensor


def through_head(
    rules: Rules, head: Head, hidden: torch.Tensor, activated: torch.Tensor, relevance: torch.Tensor
) -> torch.Tensor:
    """From the logits to the last block's output.

    Args:
        hidden: last block's output, (batch, tokens, d). activated: head.activation(head.dense(first token)),
            (batch, d). relevance: (batch, C).

    Returns (batch, tokens, d), 0 but at the first token.
    """
    relevance = rules.linear(relevance, activated, head.classifier.weight)
    first = hidden[:, 0]
    result = torch.zeros_like(hidden)
    result[:, 0] = join(first, [rules.linear(relevance, first, head.dense.weight)])
    return result


def to_attention(rules: Rules, block: Block, kept: BlockTrace, relevance: torch.Tensor) -> AttentionRelevance:
    """From a block's output, (batch, tokens, d), to its attention probabilities and values."""
    contracted, middle = rules.add(relevance, kept.contracted, kept.middle)
    activated = rules.linear(contracted, kept.activated, block.contract.weight)
    expanded = rules.linear(activated, kept.middle, block.expand.weight)
    attention_sum = join(kept.middle, [middle, expanded])
    attended, skipped = rules.add(attention_sum, kept.attended, kept.input)
    context = split_heads(rules.linear(attended, kept.context, block.output.weight), block.heads)
    attention, value = product(context, kept.attention, kept.value, split_heads(kept.context, block.heads))
    return AttentionRelevance(attention, value, skipped)


def to_input(rules: Rules, block: Block, kept: BlockTrace, reached: AttentionRelevance) -> torch.Tensor:
    """From a block's attention probabilities and values to its input, (batch, tokens, d)."""
    logits = kept.query @ kept.key.transpose(-1, -2)
    # The padding mask is a sum too, with a zero wherever relevance is; the stabiliser shows in it.
    scaled = logits * kept.query.shape[-1] ** -0.5
    relevance, _ = rules.add(reached.attention, scaled, scaled.new_zeros(()))
    query, key = product(relevance, kept.query, kept.key.transpose(-1, -2), logits)
    parts = [
        rules.linear(merge_heads(part), kept.input, linear.weight)
        for part, linear in (
            (query, block.query),
            (key.transpose(-1, -2), block.key),
            (reached.value, block.value),
        )
    ]
    return join(kept.input, [reached.skipped, join(kept.input, parts)])
