"""Methods that use only attention: raw, averaged over layers, rolled out through them, and as a flow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow
from torch import Tensor

from explearn.core.arrays import Array
from explearn.core.errors import UnsupportedError
from explearn.core.validation import LayerIndex, Rounds, Section
from explearn.lens.attention import Attention, read_weights, reduced_attention, resolve_layer
from explearn.lens.listed_head import check_reads
from explearn.methods.base.explainer import About, Batch, BatchExplainer, BatchScores
from explearn.predictors.architectures import reads
from explearn.predictors.transformer import TransformerPredictor

CAPACITY_UNITS = 2**30
"""scipy's max-flow takes 32-bit whole numbers: a capacity of 1 is this many units. What leaves a node sums to 1, so no
flow comes near 2^31. Rounding moves a capacity by 2^-31 at most, and a flow by 2^-31 for each edge of its smallest cut:
3e-8 for a cut of 64 edges, less than the rounding of float32."""


class RawAttention(BatchExplainer):
    """The last layer's attention from the [CLS] token, averaged over heads.

    Attention from [CLS] to each token in one layer, averaged over heads: mean_h A[l, h, CLS, j].

    Scores do not depend on the class. Source: Jain and Wallace (2019); as a baseline, ExpNet section 4.3.
    """

    about = About(
        name="raw_attention",
        family="attention",
        cost="one forward pass",
        needs={"attentions"},
    )

    class Options(Section):
        layer: LayerIndex = -1
        """Index of the layer, from 0, or from the end if negative."""

    def check(self, classifier: TransformerPredictor) -> None:
        resolve_layer(classifier.model, self.options.layer)
        check_reads(classifier)

    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        layer = resolve_layer(classifier.model, self.options.layer)
        logits, (row,) = reduced_attention(classifier, batch, Attention.row, [layer])
        return BatchScores(row.mean(-1), logits, targets)


class AttentionMean(BatchExplainer):
    """Attention from the [CLS] token, averaged over heads and all layers.

    Attention from [CLS] to each token, averaged over heads and layers: mean_l mean_h A[l, h, CLS, j].

    Scores do not depend on the class. Source: as a baseline, IvRA section 3.
    """

    about = About(
        name="attention_mean",
        family="attention",
        cost="one forward pass",
        needs={"attentions"},
    )

    check = staticmethod(check_reads)

    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        logits, rows = reduced_attention(classifier, batch, Attention.row)
        return BatchScores(torch.stack(rows).mean((0, -1)), logits, targets)


class Rollout(BatchExplainer):
    """Attention of all layers, residual connections included, multiplied up to the [CLS] token.

    Attention rollout (Abnar and Zuidema, 2020, section 3).

    B_l = rows of (mean_h A[l, h] + I) brought to sum 1; J = B_L ... B_1; the score of token j is J[CLS, j]. The row is
    carried from the top layer down as a vector, so no matrix is multiplied with a matrix. Scores do not depend on the
    class.
    """

    about = About(
        name="rollout",
        family="attention",
        cost="one forward pass",
        needs={"attentions"},
    )

    check = staticmethod(check_reads)

    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        logits, means = reduced_attention(classifier, batch, Attention.head_mean)
        row = rollout_row(means, read_weights(classifier.model, batch))
        return BatchScores(row, logits, targets)


def rollout_row(head_means: Sequence[Tensor], reads: Tensor) -> Tensor:
    """Row of the rollout of the token that the head reads, (batch, tokens).

    Args:
        head_means: mean over heads of each layer's attention, first layer first, (batch, queries, keys).
        reads: how much of each token the head reads, (batch, tokens).
    """
    row = reads.to(head_means[-1])
    for attention in reversed(head_means):
        # Rows of A sum to 1, so those of A + I sum to 2.
        row = (torch.einsum("bq,bqk->bk", row, attention) + row) / 2
    return row


class AttentionFlow(BatchExplainer):
    """Largest flow from the [CLS] token at the top to each token, with attention as the pipes' capacity.

    Attention flow (Abnar and Zuidema, 2020, section 3).

    A graph of layers: node (l, i) is token i above layer l, nodes (0, j) are the inputs, and an edge from (l, i) to
    (l - 1, j) has capacity B_l[i, j], with B_l the rows of (mean_h A[l, h] + I) brought to sum 1. The score of token j
    is the largest flow from (L, CLS) to (0, j), between 0 and 1. Scores do not depend on the class.

    Each sub-token needs a max-flow problem of its own on L n^2 edges. For a text of 20, 40, 64 or 128 sub-tokens one
    CPU core took 0.01, 0.02, 0.07 or 0.6 seconds with 6 layers, and 0.01, 0.04, 0.1 or 1.3 seconds with 12.
    """

    about = About(
        name="attention_flow",
        family="attention",
        cost="one forward pass, and a max-flow problem for each sub-token",
        needs={"attentions"},
        costly=True,
        uncounted=True,
    )

    class Options(Section):
        max_tokens_per_text: Rounds = 128
        """Most sub-tokens of a text, including special tokens; longer texts raise UnsupportedError."""

    def check(self, classifier: TransformerPredictor) -> None:
        check_reads(classifier)
        if reads(classifier.model) == "mean":
            raise UnsupportedError(
                "attention_flow: flow starts at the one token that the head reads, but the head of this "
                f"{classifier.model.config.model_type!r} model reads the mean of all; use rollout"
            )

    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        longest = max(map(len, batch.encodings))
        if longest > self.options.max_tokens_per_text:
            raise UnsupportedError(
                f"attention_flow: a text has {longest} sub-tokens, more than max_tokens_per_text = "
                f"{self.options.max_tokens_per_text}; it solves a max-flow problem for each sub-token: raise the "
                "option and wait, or use rollout, which has no limit"
            )
        logits, means = reduced_attention(classifier, batch, Attention.head_mean)
        layers = torch.stack(means, dim=1).double().cpu().numpy()
        scores = np.zeros(batch.input_ids.shape)
        starts = read_weights(classifier.model, batch).argmax(-1).tolist()
        for row, encoding in enumerate(batch.encodings):
            n = len(encoding)
            scores[row, encoding.positions] = flows(layers[row, :, :n, :n], encoding.positions, starts[row])
        return BatchScores(torch.from_numpy(scores).to(means[0]), logits, targets)


def flows(attention: Array, sinks: list[int], start: int = 0) -> Array:
    """Largest flow from the token `start` above the last layer to some input tokens.

    Args:
        attention: head means, (layers, n, n), first layer first, row = query, rows summing to 1.
        sinks: positions of the tokens to reach.
        start: position of the token.

    Returns:
        Flows, float64, (len(sinks),).
    """
    layers, n, _ = attention.shape
    # Rows of A sum to 1, so those of A + I sum to 2.
    units = np.rint((attention + np.eye(n)) / 2 * CAPACITY_UNITS).astype(np.int32)
    # Node (l, i) has number l n + i. Nodes above a layer have n edges each, inputs have none.
    edges = np.minimum(np.arange((layers + 1) * n + 1) - n, layers * n).clip(min=0) * n
    below = np.repeat(np.arange(layers) * n, n * n) + np.tile(np.arange(n), layers * n)
    graph = csr_array((units.ravel(), below, edges), shape=((layers + 1) * n,) * 2)
    graph.eliminate_zeros()
    values = [maximum_flow(graph, layers * n + start, sink).flow_value for sink in sinks]
    return np.array(values, dtype=np.float64) / CAPACITY_UNITS
