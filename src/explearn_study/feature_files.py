"""The stage features, and its files: attention features of sub-tokens and signals of words, a row a text, in Parquet.

They are written and read shard by shard, so that memory does not grow with the number of texts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from explearn.core.compute import ComputeOptions
from explearn.core.documents import PathLike, read_json
from explearn.core.errors import DataError, UnsupportedError
from explearn.core.examples import SPLITS, Example
from explearn.core.parquet import make_schema, open_parquet, parquet_writer, read_group, read_metadata
from explearn.core.writing import atomic_folder, write_json
from explearn.lens.attention import layer_count
from explearn.lens.features import ExampleFeatures, Layers, compute_features, feature_source
from explearn.lens.listed_head import check_reads
from explearn.lens.word_signals import SIGNALS, WordSignals
from explearn.methods.consensus.signals import available_signals, compute_signals
from explearn.predictors.predictor import Predictor, transformer_of
from explearn.predictors.pretrained import load_classifier
from explearn.text.sampling import texts_to_explain
from explearn_study.params import Params
from explearn_study.workspace import REFUSAL, Workspace

logger = logging.getLogger(__name__)

SHARD_TEXTS = 512
"""Texts in memory at a time; one Parquet row group each."""


def texts_to_learn_from(
    examples: Iterable[Example], marked: Collection[str], most: int | None, unmarked: int, seed: int
) -> list[Example]:
    """Choose the texts that many methods explain side by side, for learned explainers.

    They are those of `texts_to_explain`, and others without a rationale, which a trained consensus can mark. The number
    of others does not change the draw of the former. The draw depends on ids and seed alone.

    Args:
        examples: texts to choose from.
        marked: ids of the texts that have a rationale.
        most: as in `texts_to_explain`.
        unmarked: most texts without a rationale that are added.
        seed: seed of the draw.

    Returns:
        The chosen texts in the order of `examples`.
    """
    rows = list(examples)
    chosen = {example.id for example in texts_to_explain(rows, marked, most, seed)}
    rest = [example for example in rows if example.id not in chosen and example.id not in marked]
    chosen |= {example.id for example in texts_to_explain(rest, (), unmarked, seed)}
    return [example for example in rows if example.id in chosen]


# ---- rows of texts ---------------------------------------------------------------------------------------------------


def vectors(kind: pa.DataType, width: int) -> pa.DataType:
    """Return the type of a column that holds vectors of one width for each text."""
    return pa.list_(pa.list_(kind, width))


def table_of(rows: Sequence[object], schema: pa.Schema) -> pa.Table:
    """Return rows as a table; each column holds the rows' attribute of its name."""
    columns: list[pa.Array] = []
    for field in schema:
        values: list[Any] = [getattr(row, field.name) for row in rows]
        if _is_vectors(field.type):
            starts = np.cumsum([0, *map(len, values)]).astype(np.int32)
            inner = field.type.value_type
            # Hidden states beyond float16's range would turn infinite; none of the supported encoders comes near
            # 65,504.
            numbers = np.concatenate(values).astype(inner.value_type.to_pandas_dtype()).reshape(-1)
            vectors_of_all = pa.FixedSizeListArray.from_arrays(pa.array(numbers), inner.list_size)
            columns.append(pa.ListArray.from_arrays(starts, vectors_of_all))
        else:
            columns.append(pa.array(values, type=field.type))
    return pa.table(columns, schema=schema)


def _is_vectors(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) and pa.types.is_fixed_size_list(kind.value_type))


def write_texts(
    target: PathLike,
    schema: pa.Schema,
    source: Mapping[str, Any],
    examples: Sequence[Example],
    compute: Callable[..., Sequence[object]],
    description: str | None = None,
) -> None:
    """Compute a row for each text and write them shard by shard; memory does not grow with their number.

    Args:
        target: the file.
        schema: its columns.
        source: what the rows come from, for the file's metadata.
        examples: the texts.
        compute: makes the rows of some texts, with a progress bar if its argument `description` is not None.
        description: text of the shards' progress bars. None: no bars.
    """
    remaining = iter(examples)
    with parquet_writer(target, schema, {**source, "texts": len(examples)}) as writer:
        while shard := list(islice(remaining, SHARD_TEXTS)):
            writer.write_table(table_of(compute(shard, description=description), schema))


def read_rows(path: PathLike, schema: pa.Schema) -> Iterator[dict[str, Any]]:
    """Yield the texts of a file, column -> value, one row group in memory at a time; vectors as float32, (n, width).

    Raises:
        DataError: the file is missing, damaged or of another layout.
    """
    with open_parquet(path, schema) as file:
        for group in range(file.num_row_groups):
            for batch in read_group(file, group, schema, path).to_batches():
                columns = [_values(batch.column(name)) for name in schema.names]
                for values in zip(*columns, strict=True):
                    yield dict(zip(schema.names, values, strict=True))


def _values(column: pa.Array) -> Sequence[Any]:
    if not _is_vectors(column.type):
        values: list[Any] = column.to_pylist()
        return values
    numbers = column.values.values.to_numpy(zero_copy_only=False).reshape(-1, column.type.value_type.list_size)
    return [numbers[start:end].astype(np.float32) for start, end in pairwise(column.offsets.to_numpy())]


# ---- attention features ----------------------------------------------------------------------------------------------


def feature_schema(source: Mapping[str, Any], hidden: bool = False) -> pa.Schema:
    """Return the columns: one row per text; one fixed-size list of float16 per sub-token.

    Args:
        source: what the features come from, as `feature_source` describes it.
        hidden: whether hidden states are stored, too.
    """
    columns = {
        "example_id": pa.string(),
        "predicted": pa.string(),
        "probabilities": pa.list_(pa.float32()),
        "word_ids": pa.list_(pa.int32()),
        "attention": vectors(pa.float16(), len(source["attended"]) * 2 * source["heads"]),
    }
    if hidden:
        columns["hidden"] = vectors(pa.float16(), source["hidden_size"])
    return make_schema(**columns)


def write_features(
    target: PathLike,
    classifier: Predictor,
    examples: Sequence[Example],
    layers: Layers = "all",
    hidden: bool = False,
    description: str | None = None,
) -> None:
    """Compute the features of `examples` and write them shard by shard; memory does not grow with their number."""
    check_reads(transformer_of(classifier))
    source = feature_source(transformer_of(classifier), layers)
    compute = partial(compute_features, transformer_of(classifier), layers=layers, hidden=hidden)
    write_texts(target, feature_schema(source, hidden), source, examples, compute, description)


def read_features(path: PathLike, hidden: bool = False) -> Iterator[ExampleFeatures]:
    """Yield the features of each example, one row group in memory at a time.

    Raises:
        DataError: the file is damaged, or has no hidden states although `hidden` asks for them.
    """
    schema = feature_schema(read_metadata(path), hidden)
    with open_parquet(path) as file:
        if hidden and "hidden" not in file.schema_arrow.names:
            raise DataError(f"{path}: holds no hidden states; run the stage features with attend.hidden_states=true")
    for values in read_rows(path, schema):
        values["probabilities"] = np.asarray(values["probabilities"], dtype=np.float32)
        values["word_ids"] = np.asarray(values["word_ids"], dtype=np.int32)
        yield ExampleFeatures(**values)


def write_refusal(folder: Path, error: UnsupportedError) -> None:
    """Write into a folder of features why there are none, so that methods that need none can go on."""
    write_json(folder / REFUSAL, {"reason": str(error)})


def check_refusal(folder: Path) -> None:
    """Raise the UnsupportedError that `write_refusal` wrote there, if any."""
    path = folder / REFUSAL
    if path.is_file():
        raise UnsupportedError(f"{path}: there are no attention features, for {read_json(path)['reason']}")


# ---- signals ---------------------------------------------------------------------------------------------------------


SIGNAL_SCHEMA = make_schema(
    example_id=pa.string(),
    words=pa.list_(pa.string()),
    predicted=pa.string(),
    target=pa.string(),
    probability=pa.float64(),
    scores=vectors(pa.float32(), len(SIGNALS)),
)
"""One row a text; of each word one number for each of SIGNALS. See `WordSignals`."""


def write_signals(
    target: PathLike,
    classifier: Predictor,
    examples: Sequence[Example],
    description: str | None = None,
) -> None:
    """Compute the signals of `examples` and write them shard by shard; memory does not grow with their number.

    The file's metadata has the classifier's fingerprint. Raises as `compute_signals` does.
    """
    available_signals(classifier)
    source = {"classifier": classifier.fingerprint, "signals": list(SIGNALS)}
    write_texts(target, SIGNAL_SCHEMA, source, examples, partial(compute_signals, classifier), description)


def read_signals(path: PathLike) -> Iterator[WordSignals]:
    """Yield the texts of a file, row group by row group.

    Raises:
        DataError: the file is missing, damaged or of another layout.
    """
    for values in read_rows(path, SIGNAL_SCHEMA):
        yield WordSignals(**values | {"words": tuple(values["words"])})


# ---- the stage -------------------------------------------------------------------------------------------------------


def write_task_features(workspace: Workspace, params: Params, task: str, compute: ComputeOptions, seed: int) -> None:
    """Write the attention features and signals of a task, or why there are none."""
    sections = {"attend": workspace.features(task), "signals": workspace.signals(task)}
    for section, target in sections.items():
        if getattr(params, section) is None:
            with atomic_folder(target) as folder:
                write_refusal(folder, UnsupportedError(f"the run's parameter {section!r} is null"))
    if params.attend is None and params.signals is None:
        return
    classifier = load_classifier(workspace.classifier(task), compute)
    if params.attend is not None:
        with atomic_folder(workspace.features(task)) as folder:
            try:
                layer_count(transformer_of(classifier).model)
            except UnsupportedError as error:
                write_refusal(folder, error)
                logger.warning("%s: no attention features are written: %s", task, error)
            else:
                settings = params.attend.layers, params.attend.hidden_states
                for split in SPLITS:
                    examples = workspace.read_examples(task, split)
                    what = f"{task}: attention of {split}"
                    write_features(folder / f"{split}.parquet", classifier, examples, *settings, what)
    if params.signals is not None:
        gold = workspace.read_gold(task, params)
        most = params.signals.max_texts, params.signals.unmarked_texts
        with atomic_folder(workspace.signals(task)) as folder:
            for split in ("train", "validation"):
                examples = texts_to_learn_from(workspace.read_examples(task, split), gold, *most, seed)
                write_signals(folder / f"{split}.parquet", classifier, examples, f"{task}: signals of {split}")
