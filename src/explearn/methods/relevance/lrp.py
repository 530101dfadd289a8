"""Partial LRP, full LRP and transformer attribution: what relevance propagation finds on its way down."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar

import torch
from torch import nn

from explearn.core.errors import ParamsError, UnsupportedError
from explearn.core.settings import LayerIndex, Section
from explearn.lens.anatomy import Anatomy, Block, BlockTrace, dissect, trace_block
from explearn.lens.replace import replaced_output
from explearn.lens.threads import a_view
from explearn.methods.base.explainer import BatchExplainer, BatchScores, resolve_targets
from explearn.methods.info import About
from explearn.methods.relevance.propagation import RULES, Rules, through_head, to_attention, to_input
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch

Result = TypeVar("Result")
RuleName = Literal["conserving", "doubling"]
ClsScore = Literal["own", "original"]

DTYPE = torch.float64
"""LRP divides by sums that come near 0. In float32, padding alone moves full LRP by up to 3 % of a text's largest score
with the conserving rules, and 21 % with the doubling ones (random weights, 24 layers); in float64 by 10^-8 at most."""


class _Parts(nn.Module):
    """Some modules as one, so that torch can lend them other weights for the time of a call."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        super().__init__()
        # Weights of a module that is held twice would not be given back.
        self.parts = nn.ModuleList(dict.fromkeys(modules))

    def forward(self, function: Callable[..., Result], *args: Any) -> Result:
        return function(*args)


def call_in_float64(modules: Sequence[nn.Module], function: Callable[..., Result], *args: Any) -> Result:
    """Call a function while the weights of some modules are float64 copies; afterwards the copies are gone.

    Word embeddings stay as they are, for their size: rows looked up from them become float64 in the first sum.
    """
    parts = _Parts(modules)
    copies = {
        name: weight.to(DTYPE)
        for name, weight in parts.named_parameters()
        if not name.endswith("word_embeddings.weight")
    }
    result: Result = torch.func.functional_call(parts, copies, (function, *args))
    return result


@dataclass(frozen=True, slots=True)
class Forward:
    """What relevance propagation keeps of a forward pass in float64; the rest of a block is computed again.

    mask: bool, (batch, tokens). embedded: output of the embeddings, before a projection, (batch, tokens, e). inputs: of
    each block, and output: of the last, (batch, tokens, d). activated: of the head, head.activation(
    head.dense(first token)), (batch, d). logits: (batch, C).
    """

    anatomy: Anatomy
    mask: torch.Tensor
    embedded: torch.Tensor
    inputs: tuple[torch.Tensor, ...]
    output: torch.Tensor
    activated: torch.Tensor
    logits: torch.Tensor

    @classmethod
    def run(cls, anatomy: Anatomy, batch: Batch) -> Forward:
        mask = batch.attention_mask.bool()
        embedded = embed_in_float64(replace(anatomy, projection=None), batch)
        hidden = embedded
        if anatomy.projection is not None:
            hidden = call_in_float64([anatomy.projection], anatomy.projection, embedded)
        inputs = []
        for block in anatomy.blocks:
            inputs.append(hidden)
            hidden = run_block(block, hidden, mask).result
        activated, logits = run_head(anatomy, hidden)
        return cls(anatomy, mask, embedded, tuple(inputs), hidden, activated, logits)

    def block(self, layer: int) -> BlockTrace:
        """The intermediates of a block, computed again."""
        return run_block(self.anatomy.blocks[layer], self.inputs[layer], self.mask)


def embed_in_float64(anatomy: Anatomy, batch: Batch) -> torch.Tensor:
    """`Anatomy.embed` in float64."""
    words: Any = getattr(anatomy.embeddings, "word_embeddings", None)
    if not anatomy.masked or words is None:
        return call_in_float64([anatomy.embeddings], anatomy.embed, batch).to(DTYPE)
    # DeBERTa may add nothing to the rows that are looked up, which would come to its layer norm as they are.
    with replaced_output(words, words(batch.input_ids).to(DTYPE)):
        return call_in_float64([anatomy.embeddings], anatomy.embed, batch).to(DTYPE)


def run_block(block: Block, hidden: torch.Tensor, mask: torch.Tensor) -> BlockTrace:
    """`trace_block` in float64."""
    modules = [block.query, block.key, block.value, block.output, block.attention_norm]
    modules += [block.expand, block.contract, block.norm, *block.bias_modules]
    return call_in_float64(modules, trace_block, block, hidden, mask)


def run_head(anatomy: Anatomy, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Activations of the head, (batch, d), and logits, (batch, C), in float64."""
    head = anatomy.head

    def run(first: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        activated = head.activation(head.dense(first))
        return activated, head.classifier(activated)

    return call_in_float64([head.dense, head.classifier], run, hidden[:, 0])


class LRP(BatchExplainer, ABC):
    """What partial LRP, full LRP and transformer attribution share.

    All arithmetic is in float64 (see DTYPE), whatever the classifier's precision: bf16 and fp16 decide the logits, and
    with them the class explained, by a forward pass of their own. Float64 copies of one block's weights are held at a
    time, the inputs of all blocks, and one block's intermediates, for which each block is computed twice.
    """

    reads_weights = True
    through_logits: ClassVar[bool] = True
    """Whether relevance passes the attention logits, for which there are rules in plain attention alone."""
    passes = 2  # A text in float64 takes the memory of two.

    @property
    def rules(self) -> Rules:
        """The rules that relevance is propagated by."""
        return RULES[getattr(self.options, "rules", "conserving")]()

    def check(self, classifier: Classifier) -> None:
        """Raise UnsupportedError for an architecture without rules, and on MPS devices, which have no float64."""
        blocks = dissect(classifier.model).blocks
        if self.through_logits and any(block.bias is not None or block.scale is not None for block in blocks):
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
        self, run: Forward, targets: torch.Tensor, relevance: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Scores, (batch, tokens), and completeness errors or None, from `relevance` of the last block's output."""

    def original_cls_score(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The first token's score in the original code, (batch,)."""
        return torch.zeros_like(scores[:, 0])

    @torch.no_grad()
    def score_batch(self, classifier: Classifier, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        # Weights are exchanged on a view, or another thread's prediction would meet the copies.
        run = Forward.run(dissect(a_view(classifier.model)), batch)
        low_precision = classifier.dtype in (torch.bfloat16, torch.float16)
        logits = classifier.logits(batch) if low_precision else run.logits
        targets = resolve_targets(logits, targets)
        start = nn.functional.one_hot(targets, logits.shape[-1]).to(DTYPE)
        relevance = through_head(self.rules, run.anatomy.head, run.output, run.activated, start)
        scores, error = self.propagate(run, targets, relevance)
        if self.options.cls_score == "original":
            scores[:, 0] = self.original_cls_score(scores, run.mask)
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
        self, run: Forward, targets: torch.Tensor, relevance: torch.Tensor
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
        self, run: Forward, targets: torch.Tensor, relevance: torch.Tensor
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


    Raises ParamsError for other values, and for a layer that the classifier does not have.
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
        count = len(dissect(classifier.model).blocks)
        if not -count <= self.options.start_layer < count:
            raise ParamsError(
                f"start_layer {self.options.start_layer} does not exist: the model has {count}, 0 to {count - 1} or "
                f"-{count} to -1"
            )

    def propagate(
        self, run: Forward, targets: torch.Tensor, relevance: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        blocks = run.anatomy.blocks
        first = self.options.start_layer % len(blocks)
        gradient = _head_gradient(run, targets)
        row = torch.zeros_like(run.output[:, :, 0])
        row[:, 0] = 1
        for layer in reversed(range(first, len(blocks))):
            kept, attention_gradient, gradient = _block_gradient(run, layer, gradient)
            reached = to_attention(self.rules, blocks[layer], kept, relevance)
            weights = attention_gradient.mul_(reached.attention).clamp_(min=0).mean(1)
            row = row / (weights.sum(-1) + 1)
            row = torch.einsum("bq,bqk->bk", row, weights) + row
            if layer > first:
                relevance = to_input(self.rules, blocks[layer], kept, reached)
        return row, None

    def original_cls_score(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return scores.masked_fill(~mask, torch.inf).amin(-1)


def _head_gradient(run: Forward, targets: torch.Tensor) -> torch.Tensor:
    """Gradient of the targets' logits in the last block's output, (batch, tokens, d)."""
    with torch.enable_grad():
        hidden = run.output.detach().requires_grad_()
        _, logits = run_head(run.anatomy, hidden)
        (gradient,) = torch.autograd.grad(logits.gather(-1, targets[:, None]).sum(), hidden)
    return gradient


def _block_gradient(run: Forward, layer: int, gradient: torch.Tensor) -> tuple[BlockTrace, torch.Tensor, torch.Tensor]:
    """A block's intermediates, and the gradients in its attention and its input, given that in its output."""
    with torch.enable_grad():
        hidden = run.inputs[layer].detach().requires_grad_()
        kept = run_block(run.anatomy.blocks[layer], hidden, run.mask)
        attention, before = torch.autograd.grad(kept.result, (kept.attention, hidden), gradient)
    return kept, attention, before
