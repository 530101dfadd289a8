"""Parquet files with a row a text, of which a column may hold a vector for each word or sub-token."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from explearn.core.shapes import check_shape
from explearn.core.storage import open_parquet, read_metadata
from explearn.core.tables import read_group


def vectors(kind: pa.DataType, width: int) -> pa.DataType:
    """The type of a column that holds, of each text, vectors of one width."""
    return pa.list_(pa.list_(kind, width))


def table_of(rows: Sequence[object], schema: pa.Schema) -> pa.Table:
    """Texts as a table: of each column of `schema`, the rows' attribute of its name."""
    return pa.table({f.name: _column([getattr(row, f.name) for row in rows], f.type) for f in schema}, schema=schema)


def _is_vectors(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) and pa.types.is_fixed_size_list(kind.value_type))


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if not _is_vectors(kind):
        return pa.array(values, type=kind)
    starts = np.cumsum([0, *map(len, values)]).astype(np.int32)
    # Hidden states beyond float16's range would turn infinite; none of the supported encoders comes near 65,504.
    numbers = np.concatenate(values).astype(kind.value_type.value_type.to_pandas_dtype()).reshape(-1)
    return pa.ListArray.from_arrays(
        starts, pa.FixedSizeListArray.from_arrays(pa.array(numbers), kind.value_type.list_size)
    )


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
    """A file's metadata. Raises DataError where they are not of that shape."""
    facts: dict[str, Any] = check_shape(read_metadata(path), shape, path, "create it again")
    return facts
