"""DecompX: one vector for each token, carried through all layers to the class's logit."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from explearn.core.validation import Section
from explearn.lens.anatomy import Activation, TracedPass
from explearn.methods.base.explainer import About, Batch, BatchExplainer, BatchScores, Encoding, resolve_targets
from explearn.methods.decomposition.mixing import check_parts, deviation, linear_norm, slices
from explearn.predictors.quantised import weight_of
from explearn.predictors.transformer import TransformerPredictor

Bias = Literal["absdot", "norm", "equal", "none"]
Rule = Literal["zero_origin", "linear"]

EPSILON = 1e-12
"""Value that keeps a divisor from 0, as in the original code."""


class DecompX(BatchExplainer):
    """Each token's own vector carried through all layers to the class's logit.

    DecompX (Modarressi et al. 2023): hidden states as sums of one vector for each token, carried to the logits.

    With b = batch, n = tokens, d = width: V[k, i] is the part of token i's vector that stems from token k; at first it
    is token i's embedding (projected to the width of the blocks if the encoder does so) for k = i, else 0. Linear maps
    act on each part. A layer norm does too, with the part's own mean and the whole vector's deviation. Biases are
    shared among the parts, and activations act by a slope. The score of token k is its part of the class's logit.
    Signed. The scores of all tokens, [CLS] and [SEP] included, sum to the logit unless `bias` is none;
    `completeness_error` reports the difference. In all layers but the first, b_O + W_O b_V is shared. In the first,
    each value vector stems from only one token and keeps its bias, as in the original code, even if `bias` is none.

    The classifier runs in the precision of its weights, usually float32, whatever `classifier.dtype` says: the parts
    of a state computed in bf16 would not add up to it.

    Memory: batches satisfy batch x n x n <= max_tokens, so that the parts of a batch are as many vectors of width d as
    a plain forward pass has sub-tokens; a longer text is processed alone, with its n x n parts. Intermediates that are
    wider than a part, or made of several parts, exist for at most max_tokens parts at a time (or n).
    """

    reads_weights = True
    about = About(
        name="decompx",
        family="decomposition",
        cost="one forward pass for each sub-token's vector",
        needs={"attentions"},
        costly=True,
        uncounted=True,
    )
    aggregation = "sum"
    signed = True
    output = "logit"

    class Options(Section):
        bias: Bias = "absdot"
        """The way a bias vector is shared among the parts V[k]: `absdot` in proportion to |<V[k], bias>| (the
        paper's choice), `norm` to ||V[k]||_2, `equal` evenly among the text's tokens, or `none`: biases are
        left out."""
        activation: Rule = "zero_origin"
        """The rule for activations f in feed-forward layers. `zero_origin`: a part is multiplied by f(z) / z, z
        being the whole vector before f. `linear`: it is multiplied by the tangent's slope f'(z), and the
        intercept f(z) - f'(z) z is shared like a bias."""
        head_activation: Rule = "zero_origin"
        """The same rule for the classification head's activation (tanh, relu or gelu)."""

    check = staticmethod(check_parts)

    def size(self, encoding: Encoding) -> int:
        return len(encoding) ** 2

    @torch.inference_mode()
    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        run = TracedPass.run(classifier.model, batch)
        blocks = run.anatomy.blocks
        head = run.anatomy.head
        rules = PartRules(self.options.bias, batch.attention_mask.bool())
        hidden = run.calls[0].hidden
        tokens = hidden.shape[1]
        pieces = list(slices(tokens, len(batch) * tokens, classifier.max_tokens))
        parts = hidden.new_zeros(len(batch), tokens, *hidden.shape[1:])
        parts.diagonal(dim1=1, dim2=2).copy_(hidden.transpose(1, 2))
        for number, block in enumerate(blocks, start=1):
            trace = run.block(number - 1)
            first = number == 1
            rows = tokens
            row_pieces = pieces
            if number == len(blocks):
                # The head reads only the first token's vector.
                rows = 1
                row_pieces = [slice(0, 1)]
            for k in pieces:
                values = parts[:, k] @ weight_of(block.value).T
                if first:
                    # Each source's own part includes the value bias, and no other.
                    values.diagonal(offset=k.start, dim1=1, dim2=2).add_(block.value.bias[:, None])
                heads = values.view(*values.shape[:-1], block.heads, -1)
                context = torch.einsum("bhij,bkjhe->bkihe", trace.attention[:, :, :rows], heads)
                parts[:, k, :rows] += context.flatten(-2) @ weight_of(block.output).T
            parts = parts[:, :, :rows]
            bias = block.output.bias if first else block.output(block.value.bias)
            for i in row_pieces:
                attended = rules.share(bias, parts[:, :, i])
                middle = rules.norm(block.attention_norm, trace.attention_sum[:, i], attended)
                wide = rules.linear(block.expand, middle)
                total = trace.expanded[:, i]
                wide = rules.activate(block.activation, self.options.activation, total, trace.activated[:, i], wide)
                parts[:, :, i] = rules.norm(block.norm, trace.sum[:, i], middle + rules.linear(block.contract, wide))
        # If a value is near 0, dividing it by a differently rounded copy of itself would be far from the slope.
        dense = head.dense(run.output[:, :1])
        parts = rules.linear(head.dense, parts)
        parts = rules.activate(head.activation, self.options.head_activation, dense, head.activation(dense), parts)
        parts = rules.linear(head.classifier, parts)[:, :, 0]
        chosen = resolve_targets(run.logits, targets)
        scores = parts.gather(-1, chosen[:, None, None].expand(-1, tokens, 1)).squeeze(-1)
        error = None
        if self.options.bias != "none":
            error = (scores.sum(-1) - run.logits.gather(-1, chosen[:, None]).squeeze(-1)).abs()
        return BatchScores(scores, run.logits, chosen, error)


class PartRules(NamedTuple):
    """The rules by which maps act on a batch's parts, (b, n, rows, width).

    Attributes:
        bias: the way a bias vector is shared.
        mask: bool, (b, n), False at padding.
    """

    bias: Bias
    mask: Tensor

    def share(self, bias: Tensor | None, parts: Tensor) -> Tensor:
        """Add a bias, (width,) or (b, 1, rows, width), if there is one, to the parts, in place."""
        if self.bias == "none" or bias is None:
            return parts
        if self.bias == "absdot":
            weights = torch.linalg.vecdot(parts, bias).abs()
        elif self.bias == "norm":
            weights = torch.linalg.vector_norm(parts, dim=-1)
        else:
            weights = self.mask[:, :, None].to(parts.dtype)
        weights = weights / (weights.sum(1, keepdim=True) + EPSILON)
        return parts.addcmul_(weights[..., None], bias)

    def linear(self, linear: nn.Linear, parts: Tensor) -> Tensor:
        return self.share(linear.bias, parts @ weight_of(linear).T)

    def norm(self, norm: nn.LayerNorm, total: Tensor, parts: Tensor) -> Tensor:
        """Pass parts through a layer norm; `total` is the whole vectors before it, (b, rows, d)."""
        return self.share(norm.bias, linear_norm(norm, parts).div_(deviation(norm, total)[:, None]))

    def activate(self, function: Activation, rule: Rule, total: Tensor, activated: Tensor, parts: Tensor) -> Tensor:
        """Activate parts in place; total = z and activated = f(z), the whole vectors, (b, rows, width)."""
        if rule == "zero_origin":
            slope = torch.where(total.abs() > 2 * EPSILON, activated / (total + EPSILON), 0)
            return parts.mul_(slope[:, None])
        with torch.inference_mode(False), torch.enable_grad():
            # A tensor made in inference mode can have no gradient; its copy can.
            points = total.clone().requires_grad_()
            (slope,) = torch.autograd.grad(function(points).sum(), points)
        intercept = activated - slope * total
        return self.share(intercept[:, None], parts.mul_(slope[:, None]))
