"""Word scores of many methods for one text, side by side, and their files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from explearn.core.errors import DataError
from explearn.core.shapes import Count, Shape, check_shape
from explearn.core.storage import check_schema, open_parquet, read_metadata
from explearn.core.tables import read_group

SIGNALS: tuple[str, ...] = (
    "raw_attention",
    "attention_mean",
    "rollout",
    "cam",
    "gae",
    "grad_cam",
    "attcat",
    "cat",
    "input_x_gradient",
    "gradient",
    "attn_lrp",
)
"""The methods whose word scores are the signals, in the order of the columns of `WordSignals.scores`."""

SCHEMA = pa.schema(
    [
        pa.field("example_id", pa.string(), nullable=False),
        pa.field("words", pa.list_(pa.string()), nullable=False),
        pa.field("predicted", pa.string(), nullable=False),
        pa.field("target", pa.string(), nullable=False),
        pa.field("probability", pa.float64(), nullable=False),
        pa.field("scores", pa.list_(pa.list_(pa.float32(), len(SIGNALS))), nullable=False),
    ]
)
"""One row a text; of each word one number for each of SIGNALS."""


@dataclass(frozen=True, slots=True, eq=False)
class WordSignals:
    """The signals of one text's words.

    Attributes:
        words: of both segments for a pair.
        predicted: name of the class that the classifier gives.
        probability: of the class that the signals explain.
        scores: float32, (words, len(SIGNALS)). The column of a signal that was not asked for, or that the classifier's
            architecture lacks, is NaN, and so is the row of a word that the classifier did not read.
        target: name of the class that the signals explain; empty: the predicted one.
        removal: LIME's scores of the words for the predicted class, float32, (words,); None where not measured. They
            have a file of their own (`explearn.lens.removal_effects`).
    """

    example_id: str
    words: tuple[str, ...]
    predicted: str
    probability: float
    scores: NDArray[np.float32]
    target: str = ""
    removal: NDArray[np.float32] | None = None

    @property
    def read(self) -> NDArray[np.bool_]:
        """Which words the classifier read, bool, (words,): those with a signal."""
        found: NDArray[np.bool_] = np.any(~np.isnan(self.scores), axis=-1)
        return found


def signals_table(rows: Sequence[WordSignals]) -> pa.Table:
    """A table of SCHEMA."""
    starts = np.cumsum([0, *(len(row.scores) for row in rows)]).astype(np.int32)
    values = np.concatenate([row.scores for row in rows]).astype(np.float32).reshape(-1)
    columns = {
        "example_id": pa.array([row.example_id for row in rows]),
        "words": pa.array([list(row.words) for row in rows], type=pa.list_(pa.string())),
        "predicted": pa.array([row.predicted for row in rows]),
        "target": pa.array([row.target or row.predicted for row in rows]),
        "probability": pa.array([row.probability for row in rows]),
        "scores": pa.ListArray.from_arrays(starts, pa.FixedSizeListArray.from_arrays(pa.array(values), len(SIGNALS))),
    }
    return pa.Table.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


class _Facts(Shape):
    classifier: str
    signals: list[str]
    asked: list[str] | None = None
    texts: Count


def read_signals_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """classifier (its fingerprint), signals (the names of the columns), asked (those computed) and texts.

    Raises DataError for a file without them, or with other signals than this version has.
    """
    metadata = read_metadata(path)
    if not {"classifier", "signals", "texts"} <= metadata.keys():
        raise DataError(f"{path}: its metadata do not say what the signals were taken from; create it again")
    check_shape(metadata, _Facts, path, "create it again")
    if tuple(metadata["signals"]) != SIGNALS:
        raise DataError(f"{path}: holds signals {', '.join(metadata['signals'])}; expected {', '.join(SIGNALS)}")
    return metadata


def read_signals(path: str | os.PathLike[str]) -> Iterator[WordSignals]:
    """Yield the texts of a file, row group by row group.

    Raises DataError for a file that is missing, damaged or of another layout, and, naming row (from 1) and field, for a
    text with another number of scores than words.
    """
    metadata = read_signals_metadata(path)
    number = 0
    with open_parquet(path) as file:
        check_schema(file.schema_arrow, SCHEMA, path)
        for group in range(file.num_row_groups):
            table = read_group(file, group, SCHEMA, path)
            for batch in table.to_batches():
                for row in _rows(batch):
                    number += 1
                    if len(row.scores) != len(row.words):
                        raise DataError(
                            f"{path}, row {number}, field 'scores' has {len(row.scores)} entries; "
                            f"expected {len(row.words)}, one per word"
                        )
                    if np.isinf(row.scores).any() or not 0.0 <= row.probability <= 1.0:
                        raise DataError(f"{path}, row {number}: holds a number that is out of bounds; create it again")
                    yield row
    if number != metadata["texts"]:
        raise DataError(f"{path}: holds {number} texts; expected {metadata['texts']}, as its metadata say")


def _rows(batch: pa.RecordBatch) -> Iterator[WordSignals]:
    column = batch.column("scores")
    values = column.values.values.to_numpy(zero_copy_only=False).reshape(-1, len(SIGNALS))
    scalars = batch.drop_columns(["scores"]).to_pylist()
    for row, (start, end) in zip(scalars, pairwise(column.offsets.to_numpy()), strict=True):
        yield WordSignals(
            example_id=row["example_id"],
            words=tuple(row["words"]),
            predicted=row["predicted"],
            probability=float(row["probability"]),
            scores=values[start:end].astype(np.float32),
            target=row["target"],
        )
