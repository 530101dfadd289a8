"""Parquet files: written whole or not at all, and checked against a schema where they are read."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from explearn.core.documents import PathLike, check_regular, parse_json
from explearn.core.errors import DataError, first_line
from explearn.core.validation import check
from explearn.core.writing import atomic_path

METADATA_KEY = b"explearn"
"""Key, in a Parquet file's metadata, of the JSON document that describes its content."""

ROWS_AT_ONCE = 4096
"""Rows in a row group that is written, and rows turned into Python objects at a time."""


def make_schema(nullable: Collection[str] = (), **types: pa.DataType) -> pa.Schema:
    """Return a schema of columns without nulls, except those named as nullable."""
    return pa.schema([pa.field(name, kind, nullable=name in nullable) for name, kind in types.items()])


# ---- writing ---------------------------------------------------------------------------------------------------------


@contextmanager
def parquet_writer(
    target: PathLike, schema: pa.Schema, metadata: Mapping[str, object] | None = None, what: str | None = None
) -> Iterator[pq.ParquetWriter]:
    """Open a zstd Parquet file for writing in parts; it is put in place only after the last part.

    `what` and errors are those of `explearn.core.writing.atomic_path`.
    """
    if metadata is not None:
        schema = schema.with_metadata({METADATA_KEY: json.dumps(dict(metadata), sort_keys=True, allow_nan=False)})
    with (
        atomic_path(target, what) as partial,
        partial.open("wb") as file,  # pyarrow itself opens UTF-8 names only
        pq.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        yield writer


def write_table(
    target: PathLike,
    rows: Sequence[Mapping[str, object]],
    schema: pa.Schema,
    metadata: Mapping[str, object] | None = None,
    what: str | None = None,
) -> None:
    """Write rows as a Parquet file, in groups of ROWS_AT_ONCE; `what` and errors are those of `parquet_writer`."""
    with parquet_writer(target, schema, metadata, what) as writer:
        for start in range(0, len(rows), ROWS_AT_ONCE):
            writer.write_table(pa.Table.from_pylist(list(rows[start : start + ROWS_AT_ONCE]), schema=schema))


# ---- reading ---------------------------------------------------------------------------------------------------------


@contextmanager
def open_parquet(path: PathLike, schema: pa.Schema | None = None) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file.

    Args:
        path: the file.
        schema: columns that the file must have, with their types.

    Raises:
        DataError: the file is missing, cut short or not Parquet, or a column is repeated, missing or of another type.
    """
    check_regular(path)
    with _read_errors(path, "not a whole Parquet file"):
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
    with file:
        for name in names:
            if names.count(name) > 1:
                raise DataError(f"{path}: got column {name!r} twice; expected each once")
        if schema is not None:
            check_schema(file.schema_arrow, schema, path)
        yield file


@contextmanager
def _read_errors(path: PathLike, what: str = "damaged") -> Iterator[None]:
    """Turn pyarrow's error about a missing or damaged file into a DataError."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise DataError(f"{path}: {what} ({first_line(error)}); create it again") from error


def check_schema(schema: pa.Schema, expected: pa.Schema, path: PathLike) -> None:
    """Raise DataError if a column of `expected` is missing or has another type."""
    for field in expected:
        if field.name not in schema.names:
            raise DataError(
                f"{path}: column {field.name!r} is missing; expected {', '.join(expected.names)}, "
                f"got {', '.join(schema.names)}"
            )
        kind = schema.field(field.name).type
        if not kind.equals(field.type):
            raise DataError(f"{path}: column {field.name!r} has type {kind}; expected {field.type}")


def read_table(path: PathLike, schema: pa.Schema) -> pa.Table:
    """Read the columns of a schema.

    Raises:
        DataError: as `open_parquet`; also for a damaged page.
    """
    with open_parquet(path, schema) as file, _read_errors(path):
        table = file.read(columns=schema.names)
        table.validate(full=True)  # finds bytes that are not UTF-8, and lists that overlap
    return table.select(schema.names)


def read_group(file: pq.ParquetFile, group: int, schema: pa.Schema, path: PathLike) -> pa.Table:
    """Read the columns of a schema from one row group, for files too large to be read at once.

    Raises:
        DataError: a damaged group.
    """
    with _read_errors(path):
        table = file.read_row_group(group, columns=schema.names)
        table.validate(full=True)
    return table.select(schema.names)


def iter_rows(path: PathLike, columns: Collection[str] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row number from 1, column -> value).

    Args:
        path: the file.
        columns: columns to decode; names that the file does not have are ignored. None: all.

    Raises:
        DataError: as `open_parquet`, and for a file that is damaged.
    """
    number = 0
    with open_parquet(path) as file, _read_errors(path):
        wanted = [name for name in file.schema_arrow.names if columns is None or name in columns]
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=wanted):
            for row in batch.to_pylist():
                number += 1
                yield number, row


def column_names(path: PathLike) -> list[str]:
    """Return the names of a Parquet file's columns."""
    with open_parquet(path) as file:
        return list(file.schema_arrow.names)


def read_metadata(path: PathLike) -> dict[str, Any]:
    """Return the JSON document passed to `parquet_writer`; empty if there was none.

    Raises:
        DataError: as `open_parquet`, and if the document is not a JSON object.
    """
    with open_parquet(path) as file, _read_errors(path, "its description cannot be read"):
        metadata = parse_json((file.metadata.metadata or {}).get(METADATA_KEY, b"{}"))
    document: dict[str, Any] = check(dict[str, Any], metadata, before=f"{path}, its description, ")
    return document
