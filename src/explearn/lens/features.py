"""The attention features of every sub-token (ExpNet section 3.2), and the predictions of the same pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from explearn.core.errors import ParamsError
from explearn.core.examples import Example
from explearn.core.numeric_checks import check_logits
from explearn.lens.anatomy import passing
from explearn.lens.attention import Attention, layer_count, reduced_attention, resolve_layer
from explearn.predictors.batching import run_batches
from explearn.predictors.encoding import Batch
from explearn.predictors.transformer import TransformerPredictor

Layers = Literal["all"] | Sequence[int]
"""Layers whose attention is taken: indices from 0, or from the end if negative."""


@dataclass(frozen=True, slots=True)
class TokenFeatures:
    """The features of one batch.

    attention: float, (batch, tokens, layers * 2H): for each layer [A[h, CLS, j] for h] then [A[h, j, CLS] for h].
    hidden: the last layer's hidden states, (batch, tokens, d), or None if not requested.
    logits: float32, (batch, C).
    """

    attention: torch.Tensor
    hidden: torch.Tensor | None
    logits: torch.Tensor


def resolve_layers(model: torch.nn.Module, layers: Layers) -> list[int]:
    """Return layer indices from 0.

    Raises UnsupportedError for architectures whose attention cannot be captured, ParamsError for a layer that does not
    exist or is named twice, and for no layer at all.
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
    """Compute the features of every position in one forward pass. Raises as `resolve_layers` does."""
    indices = resolve_layers(classifier.model, layers)
    with classifier.gathered(), passing(encoder=classifier.model.base_model) as seen:
        logits, parts = reduced_attention(classifier, batch, Attention.row_and_column, indices)
        attention = torch.cat(parts, -1)
    return TokenFeatures(attention, seen["encoder"][1][0].float() if hidden else None, logits)


@dataclass(frozen=True, slots=True)
class ExampleFeatures:
    """The stored features of one example, without its special tokens.

    attention: float32, (tokens, layers * 2H), as in TokenFeatures. hidden: float32, (tokens, d), or None. word_ids:
    int, (tokens,), NO_WORD for a sub-token of no word. predicted: name of the predicted class. probabilities: (C,).
    """

    example_id: str
    predicted: str
    probabilities: NDArray[np.float32]
    word_ids: NDArray[np.int32]
    attention: NDArray[np.float32]
    hidden: NDArray[np.float32] | None = None


def feature_source(classifier: TransformerPredictor, layers: Layers = "all") -> dict[str, Any]:
    """Describe the source of features.

    classifier: its fingerprint. attended: the layers whose attention is taken, from 0. layers: number of the encoder's
    layers. heads: number in each layer. hidden_size.
    """
    config: Any = classifier.model.config
    return {
        "classifier": classifier.fingerprint,
        "attended": resolve_layers(classifier.model, layers),
        "layers": layer_count(classifier.model),
        "heads": int(config.num_attention_heads),
        "hidden_size": int(config.hidden_size),
    }


def compute_features(
    classifier: TransformerPredictor,
    examples: Sequence[Example],
    layers: Layers = "all",
    hidden: bool = False,
    description: str | None = None,
) -> list[ExampleFeatures]:
    """Compute the features of examples, in their order, with a progress bar when `description` is set."""
    encodings = classifier.encode(examples)

    def compute(indices: list[int]) -> Iterator[ExampleFeatures]:
        features = batch_features(classifier, classifier.batch([encodings[i] for i in indices]), layers, hidden)
        attention = features.attention.float().cpu().numpy()
        states = features.hidden.cpu().numpy() if features.hidden is not None else None
        probabilities = classifier.probabilities(features.logits.double()).cpu().numpy()
        check_logits(probabilities, classifier.name)
        for row, index in enumerate(indices):
            positions = encodings[index].positions
            yield ExampleFeatures(
                example_id=examples[index].id,
                predicted=classifier.labels[int(probabilities[row].argmax())],
                probabilities=probabilities[row].astype(np.float32),
                word_ids=np.asarray(encodings[index].word_ids, dtype=np.int32)[positions],
                attention=attention[row, positions],
                hidden=states[row, positions] if states is not None else None,
            )

    return run_batches([len(e) for e in encodings], classifier, compute, description=description)
