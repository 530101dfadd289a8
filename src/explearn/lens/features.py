"""Attention features of every sub-token (ExpNet section 3.2), and the predictions made on the way, streamed to
Parquet."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from explearn.core.documents import read_json
from explearn.core.errors import DataError, ParamsError, UnsupportedError
from explearn.core.finite import check_logits
from explearn.core.parquet import make_schema, open_parquet
from explearn.core.records import Example
from explearn.core.validation import Count, Shape
from explearn.core.writing import write_json
from explearn.lens.anatomy import passing
from explearn.lens.attention import Attention, layer_count, reduced_attention, resolve_layer
from explearn.lens.text_tables import read_facts, read_rows, vectors, write_texts
from explearn.model.batching import run_batches
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch
from explearn.text.alignment import NO_WORD

REFUSAL = "refused.json"

Layers = Literal["all"] | Sequence[int]
"""Which layers' attention to take: indices from 0, or from the end when negative."""


@dataclass(frozen=True, slots=True)
class TokenFeatures:
    """Features of one batch.

    attention: float, (batch, tokens, layers * 2H): for each layer [A[h, CLS, j] for h] then [A[h, j, CLS] for h].
    hidden: the last layer's hidden states, (batch, tokens, d), or None when not asked for.
    logits: float32, (batch, C).
    """

    attention: torch.Tensor
    hidden: torch.Tensor | None
    logits: torch.Tensor


def resolve_layers(model: torch.nn.Module, layers: Layers) -> list[int]:
    """Layer indices from 0.

    Raises UnsupportedError for architectures whose attention cannot be captured, ParamsError for a layer that does not
    exist, one named twice, or none.
    """
    if layers == "all":
        return list(range(layer_count(model)))
    indices = [resolve_layer(model, layer) for layer in layers]
    if not indices or len(set(indices)) < len(indices):
        raise ParamsError(f"layers: got {list(layers)}; expected one or more, each once, or all")
    return indices


@torch.inference_mode()
def batch_features(classifier: Classifier, batch: Batch, layers: Layers = "all", hidden: bool = False) -> TokenFeatures:
    """Features of every position in one forward pass. Raises as `resolve_layers` does."""
    indices = resolve_layers(classifier.model, layers)
    with classifier.gathered(), passing(encoder=classifier.model.base_model) as seen:
        logits, parts = reduced_attention(classifier, batch, Attention.row_and_column, indices)
        attention = torch.cat(parts, -1)
    return TokenFeatures(attention, seen["encoder"][1][0].float() if hidden else None, logits)


@dataclass(frozen=True, slots=True)
class ExampleFeatures:
    """Stored features of one example, its special tokens left out.

    attention: float32, (tokens, layers * 2H), as in TokenFeatures. hidden: float32, (tokens, d), or None. word_ids:
    int, (tokens,), NO_WORD for a piece of no word. predicted: name of the predicted class. probabilities: (C,).
    """

    example_id: str
    predicted: str
    probabilities: NDArray[np.float32]
    word_ids: NDArray[np.int32]
    attention: NDArray[np.float32]
    hidden: NDArray[np.float32] | None = None


def feature_schema(attention_width: int, hidden_width: int | None = None) -> pa.Schema:
    """One row per text; one fixed-size list of float16 per sub-token."""
    columns = {
        "example_id": pa.string(),
        "predicted": pa.string(),
        "probabilities": pa.list_(pa.float32()),
        "word_ids": pa.list_(pa.int32()),
        "attention": vectors(pa.float16(), attention_width),
    }
    if hidden_width is not None:
        columns["hidden"] = vectors(pa.float16(), hidden_width)
    return make_schema(**columns)


def feature_source(classifier: Classifier, layers: Layers = "all") -> dict[str, Any]:
    """Describe what features are taken from.

    classifier: its fingerprint. attended: the layers that the attention is of, from 0. layers: how many the encoder
    has. heads: in each. hidden_size.
    """
    config: Any = classifier.model.config
    return {
        "classifier": classifier.fingerprint,
        "attended": resolve_layers(classifier.model, layers),
        "layers": layer_count(classifier.model),
        "heads": int(config.num_attention_heads),
        "hidden_size": int(config.hidden_size),
    }


def attention_width(source: Mapping[str, Any]) -> int:
    """Attention features a sub-token has, of those that `source` (see `feature_source`) describes."""
    return len(source["attended"]) * 2 * int(source["heads"])


def compute_features(
    classifier: Classifier,
    examples: Sequence[Example],
    layers: Layers = "all",
    hidden: bool = False,
    progress: Callable[[int], object] | None = None,
) -> list[ExampleFeatures]:
    """Features of some examples, in their order; `progress` is called with the number of texts done."""
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
        if progress is not None:
            progress(len(indices))

    return run_batches([len(e) for e in encodings], classifier, compute)


def write_features(
    target: str | os.PathLike[str],
    classifier: Classifier,
    examples: Sequence[Example],
    layers: Layers = "all",
    hidden: bool = False,
    description: str | None = None,
) -> None:
    """Compute the features of `examples` and write them shard by shard; memory does not grow with their number."""
    source = feature_source(classifier, layers)
    schema = feature_schema(attention_width(source), source["hidden_size"] if hidden else None)

    def compute(shard: list[Example], progress: Callable[[int], object]) -> list[ExampleFeatures]:
        return compute_features(classifier, shard, layers, hidden, progress)

    write_texts(target, schema, source, examples, compute, description)


class FeatureFacts(Shape):
    """The metadata of a feature file: `feature_source`, and the number of texts that it holds."""

    classifier: str
    attended: list[Count]
    heads: Count
    hidden_size: Count
    texts: Count


def read_feature_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a feature file was taken from (`feature_source`), and `texts`, how many it holds.

    Raises DataError when the file is not one, or holds fewer texts than were written.
    """
    return read_facts(path, FeatureFacts)


def read_features(path: str | os.PathLike[str], hidden: bool = False) -> Iterator[ExampleFeatures]:
    """Yield the features of each example, one row group in memory at a time.

    Raises DataError for a file that is damaged, or holds no hidden states when `hidden` asks for them.
    """
    metadata = read_feature_metadata(path)
    with open_parquet(path) as file:
        if hidden and "hidden" not in file.schema_arrow.names:
            raise DataError(f"{path}: holds no hidden states; run the stage features with attend.hidden_states=true")
    schema = feature_schema(attention_width(metadata), int(metadata["hidden_size"]) if hidden else None)
    for number, values in enumerate(read_rows(path, schema), start=1):
        lists = {"probabilities": np.float32, "word_ids": np.int32}
        arrays = {name: np.asarray(values[name], dtype=kind) for name, kind in lists.items()}
        row = ExampleFeatures(**values | arrays)
        where, tokens = f"{path}, row {number}", len(row.word_ids)
        for name in ("attention", "probabilities", *(["hidden"] if hidden else [])):
            numbers = getattr(row, name)
            if name != "probabilities" and len(numbers) != tokens:
                expected = f"expected {tokens}, one per sub-token"
                raise DataError(f"{where}, field {name!r} has {len(numbers)} entries; {expected}")
            if not np.isfinite(numbers).all():
                raise DataError(f"{where}, field {name!r} holds a value that is not finite; create the file again")
        if tokens and row.word_ids.min() < NO_WORD:
            raise DataError(f"{where}, field 'word_ids' holds {row.word_ids.min()}; expected numbers of words")
        yield row


def write_refusal(folder: Path, error: UnsupportedError) -> None:
    """Say in a folder of features why it holds none, so that methods without need of them can go on."""
    write_json(folder / REFUSAL, {"reason": str(error)})


def check_refusal(folder: Path) -> None:
    """Raise the UnsupportedError that `write_refusal` wrote there, if any."""
    path = folder / REFUSAL
    if path.is_file():
        raise UnsupportedError(f"{path}: there are no attention features, for {read_json(path)['reason']}")
