"""The attention features of every sub-token (ExpNet section 3.2), and the predictions of the same pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from explearn.core.arrays import Array32
from explearn.core.errors import ParamsError
from explearn.core.examples import Example
from explearn.lens.attention import Attention, layer_count, reduced_attention, resolve_layer
from explearn.lens.hooks import Hooks
from explearn.predictors.batching import run_batches
from explearn.predictors.encoding import Batch
from explearn.predictors.labelled import check_logits

if TYPE_CHECKING:
    from explearn.predictors.transformer import TransformerPredictor

Layers = Literal["all"] | Sequence[int]
"""Layers whose attention is taken: indices from 0, or from the end if negative."""


class TokenFeatures(NamedTuple):
    """The features of one batch.

    Attributes:
        attention: float, (batch, tokens, layers * 2H): for each layer [A[h, CLS, j] for h] then [A[h, j, CLS] for h].
        hidden: the last layer's hidden states, (batch, tokens, d), or None if not requested.
        logits: float32, (batch, C).
    """

    attention: Tensor
    hidden: Tensor | None
    logits: Tensor


def resolve_layers(model: torch.nn.Module, layers: Layers) -> list[int]:
    """Return layer indices from 0.

    Raises:
        UnsupportedError: the model's attention cannot be captured.
        ParamsError: a layer does not exist or is named twice, or there is none at all.
    """
    if layers == "all":
        return list(range(layer_count(model)))
    indices = [resolve_layer(model, layer) for layer in layers]
    if not indices or len(set(indices)) < len(indices):
        raise ParamsError(f"layers: got {list(layers)}; expected one or more, each once, or all")
    return indices


@torch.inference_mode()
def batch_features(
    classifier: TransformerPredictor, batch: Batch, layers: Layers = "all", hidden: bool = False
) -> TokenFeatures:
    """Compute the features of every position in one forward pass.

    Whether the head reads the tokens whose attention is taken is for the caller to check (`listed_head.check_reads`).

    Args:
        classifier: the classifier.
        batch: the texts.
        layers: layers whose attention is taken.
        hidden: whether to return the last layer's hidden states.

    Raises:
        UnsupportedError: as `resolve_layers`.
        ParamsError: as `resolve_layers`.
    """
    indices = resolve_layers(classifier.model, layers)
    with classifier.gathered(), Hooks() as hooks:
        encoder = hooks.record(classifier.model.base_model)
        logits, parts = reduced_attention(classifier, batch, Attention.row_and_column, indices)
        attention = torch.cat(parts, -1)
    states = encoder.output[0].float() if hidden else None
    return TokenFeatures(attention, states, logits)


class ExampleFeatures(NamedTuple):
    """The stored features of one example, without its special tokens.

    Attributes:
        example_id: id of the example.
        predicted: name of the predicted class.
        probabilities: of the classes, (C,).
        word_ids: int, (tokens,), NO_WORD for a sub-token of no word.
        attention: float32, (tokens, layers * 2H), as in TokenFeatures.
        hidden: float32, (tokens, d), or None.
    """

    example_id: str
    predicted: str
    probabilities: Array32
    word_ids: NDArray[np.int32]
    attention: Array32
    hidden: Array32 | None = None


def encoder_sizes(model: Any) -> dict[str, int]:
    """Return the number of an encoder's layers (`layers`), of `heads` in each, and its `hidden_size`."""
    config = model.config
    return {
        "layers": layer_count(model),
        "heads": int(config.num_attention_heads),
        "hidden_size": int(config.hidden_size),
    }


def feature_source(classifier: TransformerPredictor, layers: Layers = "all") -> dict[str, Any]:
    """Describe the source of features.

    Returns:
        `classifier`, its fingerprint; `attended`, the layers whose attention is taken, from 0; and `encoder_sizes`.
    """
    return {
        "classifier": classifier.fingerprint,
        "attended": resolve_layers(classifier.model, layers),
        **encoder_sizes(classifier.model),
    }


def compute_features(
    classifier: TransformerPredictor,
    examples: Sequence[Example],
    layers: Layers,
    hidden: bool,
    description: str | None = None,
) -> list[ExampleFeatures]:
    """Compute the features of examples, in their order.

    Args:
        classifier: the classifier.
        examples: the examples.
        layers: layers whose attention is taken.
        hidden: whether to compute the last layer's hidden states.
        description: title of a progress bar. None: there is no bar.
    """
    encodings = classifier.read(examples)

    def compute(indices: list[int]) -> Iterator[ExampleFeatures]:
        batch = classifier.batch([encodings[i] for i in indices])
        features = batch_features(classifier, batch, layers, hidden)
        probabilities = classifier.problem.probabilities(features.logits.double()).cpu().numpy()
        check_logits(probabilities, classifier.name)
        attention = features.attention.float().cpu().numpy()
        states = None if features.hidden is None else features.hidden.cpu().numpy()
        for row, index in enumerate(indices):
            positions = encodings[index].positions
            yield ExampleFeatures(
                example_id=examples[index].id,
                predicted=classifier.labels[int(probabilities[row].argmax())],
                probabilities=probabilities[row].astype(np.float32),
                word_ids=np.asarray(encodings[index].word_ids, dtype=np.int32)[positions],
                attention=attention[row, positions],
                hidden=None if states is None else states[row, positions],
            )

    return run_batches([len(e) for e in encodings], classifier, compute, description=description)
