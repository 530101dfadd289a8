"""A recorded forward pass of a classifier: attention, hidden states and embeddings, and their gradients by autograd.

The model runs its own forward pass, whatever its architecture. Only its attention is computed explicitly, since fused
kernels store no probabilities to take a gradient at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import nn

from explearn.core.compute import at_least_float32
from explearn.lens.anatomy import check_head, passing
from explearn.lens.attention import Attention, attention_layers, layer_count, read_weights
from explearn.lens.threads import here_only, hooked
from explearn.lens.words import word_layers
from explearn.predictors.architectures import blocks_in_order
from explearn.predictors.encoding import Batch
from explearn.predictors.transformer import TransformerPredictor


@dataclass(slots=True)
class Watched:
    """The results of a forward pass, with their graph; b = batch, h = heads, n = tokens, d = width.

    Attributes:
        words: word embeddings, (b, n, e), at the place where gradients are taken (`words.word_layers`).
        embedded: output of the embeddings, (b, n, e), before a projection to the width of the blocks.
        attentions: probabilities, (b, h, n, n), row = query, of the layers from the first one watched on.
        inputs: of their blocks, (b, n, d).
        states: the encoder's output, (b, n, d), after its last norm if it ends with one.
        logits: (b, C).
    """

    logits: torch.Tensor
    states: torch.Tensor
    embedded: torch.Tensor
    words: torch.Tensor
    attentions: list[torch.Tensor]
    inputs: list[torch.Tensor]


def watch(
    classifier: TransformerPredictor, batch: Batch, first_layer: int = 0, keys: torch.Tensor | None = None
) -> Watched:
    """Run a classifier and record its intermediates (`Watched`).

    The graph starts at the word embeddings or, if `first_layer` is not 0, at the input of that block. Lower layers
    build no graph and are not recorded. Under `torch.inference_mode()` or `torch.no_grad()` there is no graph at all.

    Args:
        first_layer: counted from 0, or from the end if negative.
        keys: which tokens may be attended to, bool, (batch, tokens) (default: all but padding).

    Raises UnsupportedError as `attention.attention_layers` does.
    """
    model: Any = classifier.model
    first = first_layer % layer_count(model)
    words_end = word_layers(classifier)[-1]
    words: list[torch.Tensor] = []
    attentions: list[torch.Tensor] = []
    inputs: list[torch.Tensor] = []

    def on_words(_module: nn.Module, _args: object, output: torch.Tensor) -> torch.Tensor:
        # The classifier's parameters are frozen: the graph starts here, or at a block.
        words.append(output.detach().requires_grad_(first == 0 and torch.is_grad_enabled()))
        return words[-1]

    def on_block(_module: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[Any, ...]:
        hidden = args[0]
        if len(inputs) == first > 0 and torch.is_grad_enabled():
            hidden = hidden.detach().requires_grad_()
        inputs.append(hidden)
        return (hidden, *args[1:])

    def write_out(_layer: int, attention: Attention) -> torch.Tensor | None:
        if attention.value is not None:
            attentions.append((attention if keys is None else replace(attention, keys=keys, padded=True)).matrix())
            return attentions[-1].to(attention.value.dtype) @ attention.value
        probabilities = cast(torch.Tensor, attention.probabilities)
        if keys is not None:
            probabilities = probabilities * keys[:, None, None]
            probabilities = probabilities / probabilities.sum(-1, keepdim=True)
        attentions.append(probabilities)
        return probabilities

    base = model.base_model
    blocks = dict.fromkeys(blocks_in_order(base))
    handles = [block.register_forward_pre_hook(here_only(on_block)) for block in blocks]
    handles.append(words_end.register_forward_hook(here_only(on_words)))
    embeddings = getattr(base, "embeddings", None)
    parts = {"encoder": base, "embeddings": embeddings if isinstance(embeddings, nn.Module) else None}
    layers = range(first, layer_count(model))
    with hooked(handles), passing(**parts) as seen, attention_layers(model, write_out, layers):
        logits = model(**batch.model_inputs()).logits
    embedded = seen["embeddings"][1] if "embeddings" in seen else inputs[0]
    return Watched(logits, seen["encoder"][1][0], embedded, words[-1], attentions, inputs[first:])


@dataclass(frozen=True, slots=True)
class LayerGradients:
    """The results of one forward and one backward pass, without a graph, in float32 (float64 for a float64 model).

    Each tuple holds one tensor for each requested layer, in the order in which the layers run; it is empty for a
    gradient that was not requested. f: logit of the target; b = batch, h = heads, n = tokens, d = width.

    Attributes:
        logits: (b, C). targets: int64, (b,), the classes explained.
        attentions: probabilities A, (b, h, n, n), row = query. Padding has columns of 0 and meaningless rows.
        attention_gradients: df / dA, (b, h, n, n). Rows of padding are 0; columns of padding are not.
        inputs: input x of the block, (b, n, d). input_gradients: df / dx, (b, n, d), 0 at padding.
        reads: how much of each token's vector the head reads, (b, n), as `attention.read_weights`.
    """

    logits: torch.Tensor
    targets: torch.Tensor
    attentions: tuple[torch.Tensor, ...]
    attention_gradients: tuple[torch.Tensor, ...]
    inputs: tuple[torch.Tensor, ...]
    input_gradients: tuple[torch.Tensor, ...]
    reads: torch.Tensor


def check_differentiable(classifier: TransformerPredictor) -> None:
    """Raise UnsupportedError for a classifier that `differentiate` does not support."""
    check_head(classifier.model)


def differentiate(
    classifier: TransformerPredictor,
    batch: Batch,
    targets: torch.Tensor | None,
    *,
    attentions: bool = False,
    inputs: bool = False,
    first_layer: int = 0,
    keys: torch.Tensor | None = None,
) -> LayerGradients:
    """Compute gradients of the logits of `targets`, or of the predicted classes if None, in one backward pass.

    Args:
        attentions: take gradients at the attention probabilities.
        inputs: take gradients at the inputs of the blocks; at least one of the two must be set.
        first_layer: lowest layer of interest, counted from 0, or from the end if negative. Lower layers build no graph,
            and the backward pass ends there.
        keys: as in `watch`.

    Raises UnsupportedError as `watch` does; `check_differentiable` checks beforehand whether the head is supported.
    """
    # inference_mode(False) turns gradients on inside no_grad, too.
    with torch.inference_mode(False), torch.enable_grad(), classifier.autocast():
        run = watch(classifier, batch, first_layer, keys)
        chosen = run.logits.detach().argmax(-1) if targets is None else targets
        wanted = [*(run.attentions if attentions else ()), *(run.inputs if inputs else ())]
        gradients = gradients_of(run.logits, chosen, wanted)
    split = len(run.attentions) if attentions else 0
    return LayerGradients(
        logits=full_precision(run.logits),
        targets=chosen,
        attentions=tuple(map(full_precision, run.attentions)),
        attention_gradients=tuple(gradients[:split]),
        inputs=tuple(map(full_precision, run.inputs)),
        input_gradients=tuple(gradients[split:]),
        reads=full_precision(read_weights(classifier.model, batch).to(run.attentions[0])),
    )


def gradients_of(
    logits: torch.Tensor, targets: torch.Tensor, wanted: Sequence[torch.Tensor], keep: bool = False
) -> list[torch.Tensor]:
    """Return gradients of the targets' logits at some tensors of their graph, at least float32.

    keep: whether the graph is kept.
    """
    one_hot = nn.functional.one_hot(targets, logits.shape[-1]).to(logits.dtype)
    return [full_precision(g) for g in torch.autograd.grad(logits, wanted, one_hot, retain_graph=keep)]


def full_precision(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor without its graph, in float32, or float64 if it is float64."""
    return at_least_float32(tensor.detach())


def content_mask(batch: Batch) -> torch.Tensor:
    """Return a mask, bool, (batch, tokens): True at the text's tokens, False at special tokens and padding."""
    longest = batch.input_ids.shape[1]
    rows = [[not s for s in e.special] + [False] * (longest - len(e)) for e in batch.encodings]
    return torch.tensor(rows, device=batch.input_ids.device)
