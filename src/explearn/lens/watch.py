"""A recorded forward pass of a classifier: attention, hidden states and embeddings, and their gradients by autograd.

The model runs its own forward pass, whatever its architecture. Only its attention is computed explicitly, since fused
kernels store no probabilities to take a gradient at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from explearn.core.compute import at_least_float32
from explearn.lens.anatomy import check_head
from explearn.lens.attention import Attention, attention_layers, layer_count, read_weights
from explearn.lens.hooks import Hooks
from explearn.lens.words import word_layers
from explearn.predictors.architectures import blocks_in_order
from explearn.predictors.encoding import Batch

if TYPE_CHECKING:
    from explearn.predictors.transformer import TransformerPredictor


class Watched(NamedTuple):
    """The results of a forward pass, with their graph; b = batch, h = heads, n = tokens, d = width.

    Attributes:
        words: word embeddings, (b, n, e), at the place where gradients are taken (`words.word_layers`).
        embedded: output of the embeddings, (b, n, e), before a projection to the width of the blocks.
        attentions: probabilities, (b, h, n, n), row = query, of the layers from the first one watched on.
        inputs: of their blocks, (b, n, d).
        states: the encoder's output, (b, n, d), after its last norm if it ends with one.
        logits: (b, C).
    """

    logits: Tensor
    states: Tensor
    embedded: Tensor
    words: Tensor
    attentions: list[Tensor]
    inputs: list[Tensor]


def watch(classifier: TransformerPredictor, batch: Batch, first_layer: int = 0, keys: Tensor | None = None) -> Watched:
    """Run a classifier and record its intermediates (`Watched`).

    The graph starts at the word embeddings or, if `first_layer` is not 0, at the input of that block. Lower layers
    build no graph and are not recorded. Under `torch.inference_mode()` or `torch.no_grad()` there is no graph at all.

    Args:
        classifier: the classifier.
        batch: the texts.
        first_layer: counted from 0, or from the end if negative.
        keys: tokens that may be attended to, bool, (batch, tokens). None: all but padding.

    Raises:
        UnsupportedError: as `attention.attention_layers`.
    """
    model: Any = classifier.model
    base = model.base_model
    first = first_layer % layer_count(model)
    last_word_layer = word_layers(classifier)[-1]
    words: list[Tensor] = []
    attentions: list[Tensor] = []
    inputs: list[Tensor] = []

    def on_words(output: Tensor) -> Tensor:
        # The classifier's parameters are frozen: the graph starts here, or at a block.
        words.append(output.detach().requires_grad_(first == 0 and torch.is_grad_enabled()))
        return words[-1]

    def on_block(_module: nn.Module, args: tuple[Tensor, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        hidden = args[0]
        if len(inputs) == first > 0 and torch.is_grad_enabled():
            hidden = hidden.detach().requires_grad_()
        inputs.append(hidden)
        return (hidden, *args[1:]), kwargs

    def write_out(_layer: int, attention: Attention) -> Tensor:
        if keys is not None:
            attention = replace(attention, keys=keys)
        matrix = attention.matrix()
        if keys is not None and attention.probabilities is not None:
            matrix = matrix * keys[:, None, None]
            matrix = matrix / matrix.sum(-1, keepdim=True)
        attentions.append(matrix)
        return attention.result(matrix)

    with Hooks() as hooks, attention_layers(model, write_out, range(first, layer_count(model))):
        hooks.replace(last_word_layer, on_words)
        for block in dict.fromkeys(blocks_in_order(base)):
            hooks.before(block, on_block)
        encoder = hooks.record(base)
        embeddings = None
        if isinstance(getattr(base, "embeddings", None), nn.Module):
            embeddings = hooks.record(base.embeddings)
        logits = model(**batch.model_inputs()).logits
    embedded = inputs[0] if embeddings is None else embeddings.output
    return Watched(logits, encoder.output[0], embedded, words[-1], attentions, inputs[first:])


class LayerGradients(NamedTuple):
    """The results of one forward and one backward pass, without a graph, in float32 (float64 for a float64 model).

    Each tuple holds one tensor for each requested layer, in the order in which the layers run; it is empty for a
    gradient that was not requested. f: logit of the target; b = batch, h = heads, n = tokens, d = width.

    Attributes:
        logits: (b, C).
        targets: the classes explained, int64, (b,).
        attentions: probabilities A, (b, h, n, n), row = query. Padding has columns of 0 and meaningless rows.
        attention_gradients: df / dA, (b, h, n, n). Rows of padding are 0; columns of padding are not.
        inputs: input x of the block, (b, n, d).
        input_gradients: df / dx, (b, n, d), 0 at padding.
        reads: how much of each token's vector the head reads, (b, n), as `attention.read_weights`.
    """

    logits: Tensor
    targets: Tensor
    attentions: tuple[Tensor, ...]
    attention_gradients: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]
    input_gradients: tuple[Tensor, ...]
    reads: Tensor


def check_differentiable(classifier: TransformerPredictor) -> None:
    """Check that `differentiate` supports a classifier.

    Raises:
        UnsupportedError: it does not.
    """
    check_head(classifier.model)


def differentiate(
    classifier: TransformerPredictor,
    batch: Batch,
    targets: Tensor | None,
    *,
    attentions: bool = False,
    inputs: bool = False,
    first_layer: int = 0,
    keys: Tensor | None = None,
) -> LayerGradients:
    """Compute gradients of the logits of `targets`, or of the predicted classes if None, in one backward pass.

    Args:
        classifier: the classifier.
        batch: the texts.
        targets: int64, (b,), or None.
        attentions: whether to take gradients at the attention probabilities.
        inputs: whether to take gradients at the inputs of the blocks; at least one of the two must be set.
        first_layer: lowest layer of interest, counted from 0, or from the end if negative. Lower layers build no graph,
            and the backward pass ends there.
        keys: as in `watch`.

    Raises:
        UnsupportedError: as `watch`; `check_differentiable` checks beforehand whether the head is supported.
    """
    # inference_mode(False) turns gradients on inside no_grad, too.
    with torch.inference_mode(False), torch.enable_grad(), classifier.autocast():
        run = watch(classifier, batch, first_layer, keys)
        if targets is None:
            targets = run.logits.detach().argmax(-1)
        wanted: list[Tensor] = []
        if attentions:
            wanted += run.attentions
        split = len(wanted)
        if inputs:
            wanted += run.inputs
        gradients = gradients_of(run.logits, targets, wanted)
    return LayerGradients(
        logits=full_precision(run.logits),
        targets=targets,
        attentions=tuple(map(full_precision, run.attentions)),
        attention_gradients=tuple(gradients[:split]),
        inputs=tuple(map(full_precision, run.inputs)),
        input_gradients=tuple(gradients[split:]),
        reads=full_precision(read_weights(classifier.model, batch).to(run.attentions[0])),
    )


def gradients_of(logits: Tensor, targets: Tensor, wanted: Sequence[Tensor], keep: bool = False) -> list[Tensor]:
    """Return gradients of the targets' logits at some tensors, at least float32; 0 at those that do not reach them.

    Args:
        logits: (b, C), with their graph.
        targets: int64, (b,).
        wanted: the tensors, which require gradients.
        keep: whether the graph is kept for another backward pass.
    """
    one_hot = nn.functional.one_hot(targets, logits.shape[-1]).to(logits.dtype)
    gradients = torch.autograd.grad(logits, wanted, one_hot, retain_graph=keep, materialize_grads=True)
    return [full_precision(gradient) for gradient in gradients]


def full_precision(tensor: Tensor) -> Tensor:
    """Return a tensor without its graph, in float32, or float64 if it is float64."""
    return at_least_float32(tensor.detach())


def content_mask(batch: Batch) -> Tensor:
    """Return a mask, bool, (batch, tokens): True at the text's tokens, False at special tokens and padding."""
    mask = torch.zeros(batch.input_ids.shape, dtype=torch.bool)
    for row, encoding in enumerate(batch.encodings):
        mask[row, : len(encoding)] = ~torch.tensor(encoding.special, dtype=torch.bool)
    return mask.to(batch.input_ids.device)
