"""Attention features of every sub-token (ExpNet section 3.2), and the predictions made on the way, streamed to
Parquet."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from tqdm.auto import tqdm

from explearn.core.errors import DataError, ParamsError
from explearn.core.finite import check_logits
from explearn.core.records import Example
from explearn.core.shapes import Count, Shape, check_shape
from explearn.core.storage import check_schema, open_parquet, parquet_writer, read_metadata
from explearn.core.tables import read_group
from explearn.lens.capture import layer_count, resolve_layer
from explearn.lens.cls_attention import run_with_cls_attention
from explearn.lens.threads import here_only
from explearn.model.batching import budget_batches
from explearn.model.encoding import Batch
from explearn.text.alignment import NO_WORD

if TYPE_CHECKING:
    from explearn.model.classifier import Classifier

SHARD_TEXTS = 512
"""Texts in memory at a time; one Parquet row group each."""

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
    found = [resolve_layer(model, layer) for layer in layers]
    if not found or len(set(found)) < len(found):
        raise ParamsError(f"layers: got {list(layers)}; expected one or more, each once, or all")
    return found


@torch.inference_mode()
def batch_features(classifier: Classifier, batch: Batch, layers: Layers = "all", hidden: bool = False) -> TokenFeatures:
    """Features of every position in one forward pass. Raises as `resolve_layers` does."""
    indices = resolve_layers(classifier.model, layers)
    states: list[torch.Tensor] = []
    with classifier.gathered(), _last_states(classifier.model, states), classifier.autocast():
        output, attention = run_with_cls_attention(classifier.model, batch.model_inputs(), indices)
    return TokenFeatures(attention, states[0].float() if hidden else None, output.logits.float())


@contextmanager
def _last_states(model: Any, found: list[torch.Tensor]) -> Iterator[None]:
    """Append the encoder's output of each pass to `found`. (output_hidden_states would leave hooks on the model.)"""
    encoder = model.base_model
    handle = encoder.register_forward_hook(here_only(lambda _module, _args, output: found.append(output[0])))
    try:
        yield
    finally:
        handle.remove()


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
    fields = [
        pa.field("example_id", pa.string(), nullable=False),
        pa.field("predicted", pa.string(), nullable=False),
        pa.field("probabilities", pa.list_(pa.float32()), nullable=False),
        pa.field("word_ids", pa.list_(pa.int32()), nullable=False),
        pa.field("attention", pa.list_(pa.list_(pa.float16(), attention_width)), nullable=False),
    ]
    if hidden_width is not None:
        fields.append(pa.field("hidden", pa.list_(pa.list_(pa.float16(), hidden_width)), nullable=False))
    return pa.schema(fields)


def feature_source(classifier: Classifier, layers: Layers = "all") -> dict[str, Any]:
    """What features are taken from.

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
    rows: dict[int, ExampleFeatures] = {}
    for indices in budget_batches([len(e) for e in encodings], classifier.max_tokens):
        features = batch_features(classifier, classifier.batch([encodings[i] for i in indices]), layers, hidden)
        attention = features.attention.float().cpu().numpy()
        states = features.hidden.cpu().numpy() if features.hidden is not None else None
        probabilities = classifier.probabilities(features.logits.double()).cpu().numpy()
        check_logits(probabilities, classifier.name)
        for row, index in enumerate(indices):
            positions = encodings[index].positions
            rows[index] = ExampleFeatures(
                example_id=examples[index].id,
                predicted=classifier.labels[int(probabilities[row].argmax())],
                probabilities=probabilities[row].astype(np.float32),
                word_ids=np.asarray(encodings[index].word_ids, dtype=np.int32)[positions],
                attention=attention[row, positions],
                hidden=states[row, positions] if states is not None else None,
            )
        if progress is not None:
            progress(len(indices))
    return [rows[i] for i in range(len(examples))]


def write_features(
    target: str | os.PathLike[str],
    classifier: Classifier,
    examples: Sequence[Example],
    layers: Layers = "all",
    hidden: bool = False,
    description: str | None = None,
) -> None:
    """Compute the features of `examples` and write them shard by shard; memory does not grow with their number."""
    config: Any = classifier.model.config
    metadata = {**feature_source(classifier, layers), "texts": len(examples)}
    schema = feature_schema(attention_width(metadata), int(config.hidden_size) if hidden else None)
    remaining = iter(examples)
    with (
        parquet_writer(target, schema, metadata) as writer,
        tqdm(total=len(examples), desc=description, unit="text", disable=None if description else True) as bar,
    ):
        while shard := list(islice(remaining, SHARD_TEXTS)):
            writer.write_table(_table(compute_features(classifier, shard, layers, hidden, bar.update), schema))


def _table(rows: Sequence[ExampleFeatures], schema: pa.Schema) -> pa.Table:
    starts = np.cumsum([0, *(len(row.word_ids) for row in rows)]).astype(np.int32)

    def vectors(parts: list[NDArray[np.float32]], width: int) -> pa.Array:
        # Hidden states beyond float16's range would turn infinite; none of the supported encoders comes near 65,504.
        values = pa.array(np.concatenate(parts).astype(np.float16).reshape(-1))
        return pa.ListArray.from_arrays(starts, pa.FixedSizeListArray.from_arrays(values, width))

    columns = {
        "example_id": pa.array([row.example_id for row in rows]),
        "predicted": pa.array([row.predicted for row in rows]),
        "probabilities": pa.array([row.probabilities for row in rows], type=pa.list_(pa.float32())),
        "word_ids": pa.array([row.word_ids for row in rows], type=pa.list_(pa.int32())),
        "attention": vectors([row.attention for row in rows], schema.field("attention").type.value_type.list_size),
    }
    if "hidden" in schema.names:
        states = [row.hidden for row in rows if row.hidden is not None]
        columns["hidden"] = vectors(states, schema.field("hidden").type.value_type.list_size)
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


class _Facts(Shape):
    classifier: str
    attended: list[Count]
    heads: Count
    hidden_size: Count
    texts: Count


def read_feature_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a feature file was taken from (`feature_source`), and `texts`, how many it holds.

    Raises DataError when the file is not one, or holds fewer texts than were written.
    """
    metadata = read_metadata(path)
    if not {"classifier", "attended", "heads", "hidden_size", "texts"} <= metadata.keys():
        raise DataError(f"{path}: no attention features; expected a file written by the stage attend")
    check_shape(metadata, _Facts, path, "create it again")
    with open_parquet(path) as file:
        found = file.metadata.num_rows
    if found != metadata["texts"]:
        raise DataError(f"{path}: holds {found} texts; expected {metadata['texts']}; create it again")
    return metadata


def read_features(path: str | os.PathLike[str], hidden: bool = False) -> Iterator[ExampleFeatures]:
    """Yield the features of each example, one row group in memory at a time.

    Raises DataError for a file that is damaged, or holds no hidden states when `hidden` asks for them.
    """
    metadata = read_feature_metadata(path)
    width = int(metadata["hidden_size"]) if hidden else None
    schema = feature_schema(attention_width(metadata), width)
    number = 0
    with open_parquet(path) as file:
        if hidden and "hidden" not in file.schema_arrow.names:
            raise DataError(f"{path}: holds no hidden states; run the stage attend with attend.hidden_states=true")
        check_schema(file.schema_arrow, schema, path)
        for group in range(file.num_row_groups):
            table = read_group(file, group, schema, path)
            for batch in table.to_batches():
                for row in _rows(batch, hidden):
                    number += 1
                    _check_row(row, f"{path}, row {number}")
                    yield row


def _check_row(row: ExampleFeatures, where: str) -> None:
    """Raise DataError where the parts of a row do not belong together, or hold what is not finite."""
    tokens = len(row.word_ids)
    for name, values in (("attention", row.attention), ("hidden", row.hidden), ("probabilities", row.probabilities)):
        if values is None:
            continue
        if name != "probabilities" and len(values) != tokens:
            raise DataError(f"{where}, field {name!r} has {len(values)} entries; expected {tokens}, one per sub-token")
        if not np.isfinite(values).all():
            raise DataError(f"{where}, field {name!r} holds a value that is not finite; create the file again")
    if tokens and row.word_ids.min() < NO_WORD:
        raise DataError(f"{where}, field 'word_ids' holds {row.word_ids.min()}; expected numbers of words")


def _rows(batch: pa.RecordBatch, hidden: bool) -> Iterator[ExampleFeatures]:
    def matrices(name: str) -> list[NDArray[np.float32]]:
        column = batch.column(name)
        width = column.type.value_type.list_size
        values = column.values.values.to_numpy(zero_copy_only=False).reshape(-1, width)
        offsets = column.offsets.to_numpy()
        return [values[a:b].astype(np.float32) for a, b in pairwise(offsets)]

    attention = matrices("attention")
    states: Sequence[NDArray[np.float32] | None] = matrices("hidden") if hidden else [None] * len(batch)
    scalars = batch.select(["example_id", "predicted", "probabilities", "word_ids"]).to_pylist()
    for row, values, state in zip(scalars, attention, states, strict=True):
        yield ExampleFeatures(
            example_id=row["example_id"],
            predicted=row["predicted"],
            probabilities=np.asarray(row["probabilities"], dtype=np.float32),
            word_ids=np.asarray(row["word_ids"], dtype=np.int32),
            attention=values,
            hidden=state,
        )
