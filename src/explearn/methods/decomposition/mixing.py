"""ALTI and GlobEnc: the contribution of each token in an attention block, and its rollout through the layers.

With b = batch, n = tokens, h = heads, d = width: before its layer norm, token i's vector in a block is

    u_i = sum_j sum_h A_h[i, j] W_O^h v_hj + x_i + b_O,    v_hj = W_V^h x_j + b_V^h

so token j's part consists of j's vectors from each head and the residual connection, weighted by A_h[i, j] and [i = j].
With its deviation taken from the whole vector, a layer norm is a linear map and acts on each part by itself (Kobayashi
et al. 2021). As there, the value bias belongs to the value vector: attention rows sum to 1, so the split is exact. b_O
and the biases of layer norms belong to no token.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from explearn.core.errors import UnsupportedError
from explearn.core.validation import Section
from explearn.lens.anatomy import BlockTrace, EncoderBlock, TracedPass, dissect
from explearn.lens.listed_head import check_listed_head
from explearn.methods.base.explainer import About, Batch, BatchExplainer, BatchScores
from explearn.predictors.quantised import rounds_inputs, weight_of
from explearn.predictors.transformer import TransformerPredictor


def check_parts(classifier: TransformerPredictor) -> None:
    """Check that a classifier can be taken apart, and that its weights are precise enough for that.

    Raises:
        UnsupportedError: they are not.
    """
    dissect(classifier.model)
    check_listed_head(classifier)
    # Products with 8-bit weights round their inputs.
    if rounds_inputs(classifier.model) or classifier.model.dtype in (torch.bfloat16, torch.float16):
        raise UnsupportedError(
            f"{classifier.name} has weights in 8 or 16 bits, and parts of a rounded state do not "
            "add up; load it with precision fp32 or nf4"
        )


class LayerMixing(BatchExplainer):
    """The base of methods that score how much of token j is in token i, layer by layer.

    A layer's contributions c[i, j] >= 0 form a map whose rows are normalised to sum 1. The maps are multiplied from the
    first layer up, and the score of token j is the entry of row [CLS], column j. In the last layer only that row is
    computed. A row whose contributions are all 0 leaves its token unchanged (1 on the diagonal). The scores do not
    depend on the class.

    The classifier runs in the precision of its weights, usually float32, whatever `classifier.dtype` says: the parts of
    a state computed in bf16 would not add up to it. Parts are made for some tokens j at a time, so that at most
    `classifier.max_tokens` vectors of width d exist (or n or h + 1 of them if that is more).
    """

    reads_weights = True

    @abstractmethod
    def contributions(self, block: EncoderBlock, trace: BlockTrace, vectors: Tensor, weights: Tensor) -> Tensor:
        """Compute the contributions of some tokens j (the sources) to the first r tokens i.

        Args:
            block: parts of the block.
            trace: its intermediates.
            vectors: (b, sources, h + 1, d): W_O^h v_hj of each head, then x_j.
            weights: (b, sources, r, h + 1): A_h[i, j] of each head, then [i = j].

        Returns:
            (b, sources, r), not below 0, and 0 where all weights are.
        """

    def rows(self, contributions: Tensor) -> Tensor:
        """Return a layer's map, (b, r, n), from its contributions."""
        return normalise_rows(contributions)

    check = staticmethod(check_parts)

    @torch.inference_mode()
    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        run = TracedPass.run(classifier.model, batch)
        blocks = run.anatomy.blocks
        tokens = run.output.shape[1]
        rollout = torch.eye(tokens, dtype=run.output.dtype, device=run.output.device)
        for layer, block in enumerate(blocks):
            trace = run.block(layer)
            rows = 1 if layer == len(blocks) - 1 else tokens
            columns = []
            for sources in slices(tokens, len(batch) * max(rows, block.heads + 1), classifier.max_tokens):
                vectors = head_vectors(block, trace, sources)
                columns.append(self.contributions(block, trace, vectors, head_weights(trace, sources, rows)))
            rollout = self.rows(torch.cat(columns, dim=1).transpose(1, 2)) @ rollout
        return BatchScores(rollout[:, 0], run.logits, targets)


def slices(count: int, each: int, limit: int) -> Iterator[slice]:
    """Yield slices that cover `count` items, each of which makes `each` vectors.

    A slice makes at most `limit` vectors, or holds a single item.
    """
    size = max(1, limit // each)
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def head_vectors(block: EncoderBlock, trace: BlockTrace, sources: slice) -> Tensor:
    """Return each source's vector from each head, then from the residual connection: (b, sources, h + 1, d)."""
    output = weight_of(block.output)
    output = output.view(len(output), block.heads, -1)
    heads = torch.einsum("bhje,dhe->bjhd", trace.value[:, :, sources], output)
    return torch.cat([heads, trace.input[:, sources, None]], dim=2)


def head_weights(trace: BlockTrace, sources: slice, rows: int) -> Tensor:
    """Return the weights with which the first `rows` tokens add up these vectors: (b, sources, rows, h + 1)."""
    attention = trace.attention[:, :, :rows, sources].permute(0, 3, 2, 1)
    same = torch.eye(trace.input.shape[1], dtype=attention.dtype, device=attention.device)[sources, :rows, None]
    return torch.cat([attention, same.expand(len(attention), -1, -1, -1)], dim=-1)


def linear_norm(norm: nn.LayerNorm, vectors: Tensor) -> Tensor:
    """Apply a layer norm without its division and its bias: gamma * (v - mean(v)), over the last axis."""
    return (vectors - vectors.mean(-1, keepdim=True)).mul_(norm.weight)


def deviation(norm: nn.LayerNorm, total: Tensor) -> Tensor:
    """Return the divisor of a layer norm, sqrt(var + eps), for input (..., d): (..., 1)."""
    return (total.var(-1, correction=0, keepdim=True) + norm.eps).sqrt()


def normalise_rows(contributions: Tensor) -> Tensor:
    """Normalise the rows of contributions, (b, r, n), to sum 1; a row of zeros becomes 1 on the diagonal."""
    totals = contributions.sum(-1, keepdim=True)
    rows, tokens = contributions.shape[1:]
    diagonal = torch.eye(rows, tokens, dtype=contributions.dtype, device=contributions.device)
    return torch.where(totals > 0, contributions / totals, diagonal)


class ALTI(LayerMixing):
    """The closeness of each token's part of a layer's output to the whole, rolled out through the layers.

    Aggregation of layer-wise token-to-token interactions (Ferrando et al. 2022).

    Let y_i be the attention block's output (residual connection and layer norm included) and T_i(x_j) token j's part:

        c[i, j] = max(0, ||y_i||_1 - ||y_i - T_i(x_j)||_1),

    rows normalised to sum 1, layers multiplied, row [CLS] (see LayerMixing). Feed-forward layers are ignored.
    """

    about = About(
        name="alti",
        family="decomposition",
        cost="one forward pass, and its parts token by token",
        needs={"attentions"},
        uncounted=True,
    )

    def contributions(self, block: EncoderBlock, trace: BlockTrace, vectors: Tensor, weights: Tensor) -> Tensor:
        # T_i(x_j), (b, sources, r, d). Their sum over all j lacks only the biases of y_i.
        parts = weights @ linear_norm(block.attention_norm, vectors)
        parts = parts.div_(deviation(block.attention_norm, trace.attention_sum[:, None, : weights.shape[2]]))
        whole = trace.middle[:, None, : weights.shape[2]]
        size = torch.linalg.vector_norm(whole, ord=1, dim=-1)
        distance = torch.linalg.vector_norm(parts.sub_(whole), ord=1, dim=-1)
        return torch.clamp(size - distance, min=0)


class GlobEnc(LayerMixing):
    """Size of each token's part of a layer's output, layer norms included, rolled out through the layers.

    Global token attribution by norms of the whole encoder layer, N_ENC (Modarressi et al. 2022).

    Token j's part of token i's vector passes the attention, its residual connection and layer norm (with its own mean
    and the whole vector's deviation), then the second residual connection and layer norm in the same way. The output of
    the feed-forward layer is left out of the parts, since its activation cannot be split. c[i, j] is the part's L2
    norm; rows are normalised to sum 1, layers multiplied, row [CLS] (see LayerMixing).

    The two deviations of token i divide its whole row and cancel when the row is normalised; so they are left out. The
    authors' code multiplies the maps without normalising them, deviations included: option `rows`, `original`.
    """

    about = About(
        name="globenc",
        family="decomposition",
        cost="one forward pass, and its parts token by token",
        needs={"attentions"},
        uncounted=True,
    )

    class Options(Section):
        rows: Literal["shares", "original"] = "shares"
        """`shares`: each layer's rows are normalised to sum 1 before they are multiplied, as in attention rollout;
        `original`: they are not, as in the authors' code."""

    def rows(self, contributions: Tensor) -> Tensor:
        if self.options.rows == "original":
            return contributions
        return normalise_rows(contributions)

    def contributions(self, block: EncoderBlock, trace: BlockTrace, vectors: Tensor, weights: Tensor) -> Tensor:
        parts = weights @ linear_norm(block.norm, linear_norm(block.attention_norm, vectors))
        size: Tensor = torch.linalg.vector_norm(parts, dim=-1)
        if self.options.rows == "original":
            rows = weights.shape[2]
            size /= deviation(block.attention_norm, trace.attention_sum[:, :rows]).transpose(1, 2)
            size /= deviation(block.norm, trace.sum[:, :rows]).transpose(1, 2)
        return size
