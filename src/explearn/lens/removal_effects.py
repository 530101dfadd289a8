"""Files of removal effects: how much the explained class loses, word by word, when words are left out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from explearn.core.errors import DataError
from explearn.core.storage import parquet_writer, read_metadata, read_table
from explearn.lens.word_signals import WordSignals

Effects = Mapping[str, NDArray[np.float32]]
"""Example id -> one number a word, float32, (words,); larger: the class rests more on the word."""

SCHEMA = pa.schema(
    [
        pa.field("example_id", pa.string(), nullable=False),
        pa.field("effects", pa.list_(pa.float32()), nullable=False),
    ]
)
"""One row a text."""


def write_removal_effects(target: str | os.PathLike[str], effects: Effects, metadata: Mapping[str, Any]) -> None:
    """Write `effects`; `metadata` name the classifier by its fingerprint, the samples and the seed."""
    columns = [
        pa.array(list(effects), type=SCHEMA.types[0]),
        pa.array([row.tolist() for row in effects.values()], type=SCHEMA.types[1]),
    ]
    with parquet_writer(target, SCHEMA, {**metadata, "texts": len(effects)}) as writer:
        writer.write_table(pa.Table.from_arrays(columns, schema=SCHEMA))


def read_removal_effects(path: str | os.PathLike[str], classifier: str | None = None) -> Effects:
    """Removal effects of a file's texts.

    Args:
        classifier: fingerprint that they have to be of (None: any).

    Raises DataError for a file that is missing, damaged, of another layout or of another classifier.
    """
    table = read_table(path, SCHEMA)
    if classifier is not None and read_metadata(path).get("classifier") != classifier:
        raise DataError(f"{path}: its removal effects are of another classifier; run the stage signals again")
    ids = table.column("example_id").to_pylist()
    rows = table.column("effects").to_pylist()
    return {example_id: np.asarray(row, dtype=np.float32) for example_id, row in zip(ids, rows, strict=True)}


def with_effects(texts: Iterable[WordSignals], effects: Effects) -> Iterator[WordSignals]:
    """The texts, each with its removal effects where there are any.

    Raises DataError for a text with another number of effects than words.
    """
    for text in texts:
        found = effects.get(text.example_id)
        if found is not None and len(found) != len(text.words):
            raise DataError(
                f"example {text.example_id!r} has {len(found)} removal effects; "
                f"expected {len(text.words)}, one per word"
            )
        yield replace(text, removal=found)
