"""Gradients of a class's logit at attention probabilities and at the inputs of blocks.

Fused attention kernels hold no probabilities, so the forward pass is run part by part (`anatomy`), or the model's own
with its attention written out (`watched`), and one call of autograd gives the gradients of all layers. Nothing is set
on the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from explearn.lens.anatomy import dissect, trace_block
from explearn.lens.capture import layer_count, read_weights
from explearn.lens.watched import watch
from explearn.model.architectures import architecture
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch
from explearn.model.question_answering import SpanScorer


@dataclass(frozen=True, slots=True)
class LayerGradients:
    """What one forward and one backward pass give; without a graph, in float32 (float64 for a float64 model).

    The tuples hold one tensor for each layer asked for, in the order in which the layers run; those of a gradient not
    asked for are empty. f: logit of the target; b = batch, h = heads, n = tokens, d = width.

    Attributes:
        logits: (b, C). targets: int64, (b,), the classes explained.
        attentions: probabilities A, (b, h, n, n), row = query. Columns of padding are 0, rows of padding mean nothing.
        attention_gradients: df / dA, (b, h, n, n). Rows of padding are 0; columns of padding are not.
        inputs: input x of the block, (b, n, d). input_gradients: df / dx, (b, n, d), 0 at padding.
        reads: how much of each token's vector the head reads, (b, n), as `capture.read_weights`; None: the first's.
    """

    logits: torch.Tensor
    targets: torch.Tensor
    attentions: tuple[torch.Tensor, ...]
    attention_gradients: tuple[torch.Tensor, ...]
    inputs: tuple[torch.Tensor, ...]
    input_gradients: tuple[torch.Tensor, ...]
    reads: torch.Tensor | None = None

    def read_row(self) -> torch.Tensor:
        """`reads` in the precision of the gradients: where relevance carried down through the layers starts."""
        if self.reads is not None:
            return self.reads.to(self.attentions[0].dtype)
        row = torch.zeros_like(self.attentions[0][:, 0, 0])
        row[:, 0] = 1.0
        return row

    def read_rows(self, maps: torch.Tensor) -> torch.Tensor:
        """Rows of the tokens that are read, (b, n), from maps (b, n, n), row = query."""
        return maps[:, 0] if self.reads is None else torch.einsum("bq,bqk->bk", self.reads.to(maps.dtype), maps)


def check_differentiable(classifier: Classifier) -> None:
    """Raise UnsupportedError for a classifier that `differentiate` does not know."""
    config: Any = classifier.model.config
    if architecture(config).parts is None and not isinstance(classifier.model, SpanScorer):
        layer_count(classifier.model)
    else:
        dissect(classifier.model)


def differentiate(
    classifier: Classifier,
    batch: Batch,
    targets: torch.Tensor | None,
    *,
    attentions: bool = False,
    inputs: bool = False,
    first_layer: int = 0,
) -> LayerGradients:
    """Gradients of the logits of `targets`, or of the predicted classes if None.

    Args:
        attentions: take gradients at the attention probabilities.
        inputs: take gradients at the inputs of the blocks; one of the two must be asked for.
        first_layer: lowest layer of interest, counted from 0, or from the end when negative. Layers below it build no
            graph, and the backward pass ends there.

    Raises UnsupportedError for a classifier that cannot be taken apart (see `anatomy.dissect`).
    """
    check_differentiable(classifier)
    config: Any = classifier.model.config
    if architecture(config).parts is None:
        return _differentiate_watched(classifier, batch, targets, attentions, inputs, first_layer)
    anatomy = dissect(classifier.model)
    mask = batch.attention_mask.bool()
    probabilities, states = [], []
    # inference_mode(False) turns gradients on inside no_grad, too.
    with torch.inference_mode(False), classifier.autocast():
        with torch.no_grad():
            hidden = anatomy.embed(batch)
            for block in anatomy.blocks[:first_layer]:
                hidden = trace_block(block, hidden, mask).result
        # The classifier's parameters are frozen: the graph starts here.
        hidden = hidden.detach().requires_grad_()
        for block in anatomy.blocks[first_layer:]:
            passed = trace_block(block, hidden, mask)
            states.append(hidden)
            probabilities.append(passed.attention)
            hidden = passed.result
        head = anatomy.head
        logits = head.classifier(head.activation(head.dense(hidden[:, 0])))
        return _gradients(logits, targets, probabilities, states, attentions, inputs)


def _differentiate_watched(
    classifier: Classifier,
    batch: Batch,
    targets: torch.Tensor | None,
    attentions: bool,
    inputs: bool,
    first_layer: int,
) -> LayerGradients:
    """`differentiate` through the model's own forward pass, its attention written out."""
    with torch.inference_mode(False), torch.enable_grad(), classifier.autocast():
        found = watch(classifier, batch, first_layer)
        assert found.logits is not None
        gradients = _gradients(found.logits, targets, found.attentions, found.inputs, attentions, inputs)
    return replace(gradients, reads=read_weights(classifier.model.config, batch))


def _gradients(
    logits: torch.Tensor,
    targets: torch.Tensor | None,
    probabilities: Sequence[torch.Tensor],
    states: Sequence[torch.Tensor],
    attentions: bool,
    inputs: bool,
) -> LayerGradients:
    """One backward pass from the targets' logits."""
    chosen = logits.detach().argmax(-1) if targets is None else targets
    wanted = [*(probabilities if attentions else ()), *(states if inputs else ())]
    one_hot = torch.nn.functional.one_hot(chosen, logits.shape[-1]).to(logits.dtype)
    gradients = [full_precision(gradient) for gradient in torch.autograd.grad(logits, wanted, one_hot)]
    split = len(probabilities) if attentions else 0
    return LayerGradients(
        logits=full_precision(logits),
        targets=chosen,
        attentions=tuple(map(full_precision, probabilities)),
        attention_gradients=tuple(gradients[:split]),
        inputs=tuple(map(full_precision, states)),
        input_gradients=tuple(gradients[split:]),
    )


def full_precision(tensor: torch.Tensor) -> torch.Tensor:
    """Without its graph, in float32, or float64 where it is that."""
    tensor = tensor.detach()
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def content_mask(batch: Batch) -> torch.Tensor:
    """bool, (batch, tokens): True at tokens of the text, False at special tokens and padding."""
    longest = batch.input_ids.shape[1]
    rows = [[not s for s in e.special] + [False] * (longest - len(e)) for e in batch.encodings]
    return torch.tensor(rows, device=batch.input_ids.device)
