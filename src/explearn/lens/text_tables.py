"""Parquet files with a row a text, of which a column may hold a vector for each word or sub-token."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from tqdm.auto import tqdm

from explearn.core.errors import DataError
from explearn.core.parquet import open_parquet, parquet_writer, read_group, read_metadata
from explearn.core.records import Example
from explearn.core.validation import check_shape

SHARD_TEXTS = 512
"""Texts in memory at a time; one Parquet row group each."""


def vectors(kind: pa.DataType, width: int) -> pa.DataType:
    """The type of a column that holds, of each text, vectors of one width."""
    return pa.list_(pa.list_(kind, width))


def table_of(rows: Sequence[object], schema: pa.Schema) -> pa.Table:
    """Texts as a table: of each column of `schema`, the rows' attribute of its name."""
    columns: list[pa.Array] = []
    for field in schema:
        values: list[Any] = [getattr(row, field.name) for row in rows]
        if _is_vectors(field.type):
            starts, inner = np.cumsum([0, *map(len, values)]).astype(np.int32), field.type.value_type
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
    target: str | os.PathLike[str],
    schema: pa.Schema,
    source: Mapping[str, Any],
    examples: Sequence[Example],
    compute: Callable[[list[Example], Callable[[int], object]], Sequence[object]],
    description: str | None = None,
) -> None:
    """Compute a row for each text and write them shard by shard; memory does not grow with their number.

    Args:
        source: what the rows come from, for the file's metadata.
        compute: makes the rows of some texts; its second argument is to be called with the number of texts done.
        description: text of a progress bar (default: no bar).
    """
    remaining = iter(examples)
    with (
        parquet_writer(target, schema, {**source, "texts": len(examples)}) as writer,
        tqdm(total=len(examples), desc=description, unit="text", disable=None if description else True) as bar,
    ):
        while shard := list(islice(remaining, SHARD_TEXTS)):
            writer.write_table(table_of(compute(shard, bar.update), schema))


def read_rows(path: str | os.PathLike[str], schema: pa.Schema) -> Iterator[dict[str, Any]]:
    """Yield the texts of a file, column -> value, one row group in memory at a time; vectors as float32, (n, width).

    Raises DataError for a file that is missing, damaged or of another layout.
    """
    with open_parquet(path, schema) as file:
        for group in range(file.num_row_groups):
            for batch in read_group(file, group, schema, path).to_batches():
                for values in zip(*(_values(batch.column(name)) for name in schema.names), strict=True):
                    yield dict(zip(schema.names, values, strict=True))


def _values(column: pa.Array) -> Sequence[Any]:
    if not _is_vectors(column.type):
        values: list[Any] = column.to_pylist()
        return values
    numbers = column.values.values.to_numpy(zero_copy_only=False).reshape(-1, column.type.value_type.list_size)
    return [numbers[start:end].astype(np.float32) for start, end in pairwise(column.offsets.to_numpy())]


def read_facts(path: str | os.PathLike[str], shape: type) -> dict[str, Any]:
    """Return a file's metadata, with `texts`, how many it holds.

    Raises DataError where they are not of that shape, or another number of texts is there.
    """
    facts: dict[str, Any] = check_shape(read_metadata(path), shape, path, "create it again")
    with open_parquet(path) as file:
        texts = file.metadata.num_rows
    if texts != facts["texts"]:
        raise DataError(f"{path}: holds {texts} texts; expected {facts['texts']}; create it again")
    return facts
