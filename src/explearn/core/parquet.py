"""Parquet files: written whole or not at all, and read up to a size limit.

A few hundred bytes of Parquet can decode to gigabytes: one long value repeated through a dictionary, or runs of equal
numbers. So sizes are checked before decoding: each row group by the sizes and counts in its metadata, and, as strings
stay in their dictionaries until then, each batch by the length that its strings would have.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from explearn.core.documents import check_regular, parse_json
from explearn.core.errors import DataError, ParamsError, first_line
from explearn.core.validation import check, whole_number
from explearn.core.writing import atomic_path

METADATA_KEY = b"explearn"
"""Key, in a Parquet file's metadata, of the JSON document that describes its content."""

LIMIT = "EXPLEARN_PARQUET_LIMIT_MB"
"""Environment variable: limit of a Parquet file's decoded columns, in MiB."""

LIMIT_MB = 4096

ROWS_AT_ONCE = 4096
"""Rows encoded or decoded at a time when a whole table is written or read."""

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 4}
"""Lower bound of the bytes of a decoded value, by physical type."""


def make_schema(nullable: Collection[str] = (), **types: pa.DataType) -> pa.Schema:
    """Return a schema of columns without nulls, except those named as nullable."""
    return pa.schema([pa.field(name, kind, nullable=name in nullable) for name, kind in types.items()])


# ---- writing ---------------------------------------------------------------------------------------------------------


@contextmanager
def parquet_writer(
    target: str | os.PathLike[str], schema: pa.Schema, metadata: Mapping[str, object] | None = None
) -> Iterator[pq.ParquetWriter]:
    """Open a zstd Parquet file for writing in parts; it is put in place only after the last part."""
    if metadata is not None:
        schema = schema.with_metadata({METADATA_KEY: json.dumps(dict(metadata), sort_keys=True, allow_nan=False)})
    with atomic_path(target) as partial, pq.ParquetWriter(partial, schema, compression="zstd") as writer:
        yield writer


def write_table(
    target: str | os.PathLike[str],
    rows: Sequence[Mapping[str, object]],
    schema: pa.Schema,
    metadata: Mapping[str, object] | None = None,
) -> None:
    """Write rows as a Parquet file, in groups of ROWS_AT_ONCE."""
    with parquet_writer(target, schema, metadata) as writer:
        for start in range(0, len(rows), ROWS_AT_ONCE):
            writer.write_table(pa.Table.from_pylist(list(rows[start : start + ROWS_AT_ONCE]), schema=schema))


# ---- reading ---------------------------------------------------------------------------------------------------------


def parquet_limit() -> int:
    """Return the size limit in bytes. Raises ParamsError if the variable is not a positive whole number of MiB."""
    written = os.environ.get(LIMIT, "").strip() or str(LIMIT_MB)
    limit = whole_number(written)
    if not limit:
        raise ParamsError(f"{LIMIT}: got {written[:40]!r}; expected a positive whole number of MiB")
    return limit * 2**20


@contextmanager
def open_parquet(
    path: str | os.PathLike[str], schema: pa.Schema | None = None, columns: Collection[str] | None = None
) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file whose row groups are within the size limit.

    Args:
        schema: columns that the file must have, with their types.
        columns: columns that will be read (default: those of the schema; without one, all).

    Raises DataError, naming the file, if it is missing, cut short or not Parquet, for a column that is repeated,
    missing or of another type, and for a row group above the limit once decoded.
    """
    if columns is None and schema is not None:
        columns = schema.names
    with _damage(path, "not a whole Parquet file"):
        try:
            check_regular(path)
            file = pq.ParquetFile(path)
        except FileNotFoundError as error:
            raise DataError(f"{path}: no such file") from error
        names = file.schema_arrow.names
        groups = [file.metadata.row_group(index) for index in range(file.num_row_groups)]
        sizes = [
            sum(
                max(column.total_uncompressed_size, column.num_values * _WIDTHS.get(column.physical_type, 1))
                for column in map(group.column, range(group.num_columns))
                if columns is None or column.path_in_schema.partition(".")[0] in columns
            )
            for group in groups
        ]
    with file:
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(f"{path}: got column {twice!r} twice; expected each once")
        _check_size(path, max(sizes, default=0))
        if schema is not None:
            check_schema(file.schema_arrow, schema, path)
        yield file


def _check_size(path: str | os.PathLike[str], size: int) -> None:
    limit = parquet_limit()
    if size > limit:
        raise DataError(
            f"{path}: would take {size / 2**20:,.0f} MiB or more once decoded; expected at most {limit / 2**20:,.0f} "
            f"({LIMIT} sets the limit)"
        )


@contextmanager
def _damage(path: str | os.PathLike[str], what: str = "damaged") -> Iterator[None]:
    """Turn pyarrow's error about a damaged file into a DataError."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise DataError(f"{path}: {what} ({first_line(error)}); create it again") from error


def check_schema(schema: pa.Schema, expected: pa.Schema, path: str | os.PathLike[str]) -> None:
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


def read_table(path: str | os.PathLike[str], schema: pa.Schema) -> pa.Table:
    """Read the columns of a schema. Raises DataError as `open_parquet` does, for a damaged page, and for nulls in a
    column that must not have them."""
    with open_parquet(path, schema):
        pass
    plain = pa.schema([field.with_nullable(True) for field in schema])
    parts = [plain.empty_table()]
    for batch in _batches(path, ROWS_AT_ONCE, schema.names):
        with _damage(path):
            parts.append(pa.Table.from_batches([batch]).select(schema.names).cast(plain))
            parts[-1].validate(full=True)  # finds bytes that are not UTF-8, and lists that overlap
    table = pa.concat_tables(parts)
    _check_full(table, schema, path)
    return table


def read_group(file: pq.ParquetFile, group: int, schema: pa.Schema, path: str | os.PathLike[str]) -> pa.Table:
    """Read the columns of a schema from one row group, for files too large to be read at once.

    Raises DataError for a damaged group, and for nulls in a column, or in its lists, that must not have them.
    """
    with _damage(path):
        table = file.read_row_group(group, columns=schema.names)
        table.validate(full=True)
    _check_full(table, schema, path)
    return table


def _check_full(table: pa.Table, schema: pa.Schema, path: str | os.PathLike[str]) -> None:
    """Raise DataError, naming row (from 1) and field, for a null in a non-nullable column or in a list in it."""
    for field in schema:
        values = column = table.column(field.name)
        nulls = values.null_count
        while pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type):
            values = pc.list_flatten(values)
            nulls += values.null_count
        if nulls and not field.nullable:
            row = next(row for row, value in enumerate(column.to_pylist(), start=1) if _has_null(value))
            raise DataError(f"{path}, row {row}, field {field.name!r}: got nothing; expected {field.type} without gaps")


def _has_null(value: object) -> bool:
    return value is None or (isinstance(value, list) and any(map(_has_null, value)))


def iter_rows(
    path: str | os.PathLike[str], batch_rows: int, columns: Collection[str] | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row number from 1, column -> value).

    Args:
        batch_rows: rows turned into Python objects at a time.
        columns: columns to decode; names that the file does not have are ignored. Default: all.

    Raises DataError as `open_parquet` does, and for a file that is damaged or above the limit once decoded.
    """
    number = 0
    for batch in _batches(path, batch_rows, columns):
        with _damage(path, f"damaged after row {number}"):
            rows = batch.to_pylist()
        for row in rows:
            number += 1
            yield number, row


def _batches(
    path: str | os.PathLike[str], batch_rows: int, columns: Collection[str] | None
) -> Iterator[pa.RecordBatch]:
    """Yield batches with dictionary-encoded strings, up to the limit. Raises DataError as `iter_rows` does."""
    size = 0
    with open_parquet(path, columns=columns) as file:
        leaves = [file.schema.column(index) for index in range(len(file.schema))]
        wanted = [name for name in file.schema_arrow.names if columns is None or name in columns]
        groups = range(file.num_row_groups)
    with pq.ParquetFile(
        path, read_dictionary=[leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    ) as file:
        # One row group at a time: pyarrow cannot merge two groups' dictionaries in a list column.
        for group in groups:
            with _damage(path):
                for batch in file.iter_batches(batch_size=batch_rows, columns=wanted, row_groups=[group]):
                    size += sum(map(_decoded_bytes, batch.columns))
                    _check_size(path, size)
                    yield batch


def _decoded_bytes(column: pa.Array) -> int:
    """Return the bytes of a column once its strings are decoded."""
    if pa.types.is_dictionary(column.type):
        lengths = pc.binary_length(column.dictionary).cast(pa.int64())  # their sum may exceed 2^31
        return 4 * len(column) + int(pc.sum(lengths.take(column.indices)).as_py() or 0)
    if pa.types.is_struct(column.type):
        return sum(map(_decoded_bytes, column.flatten()))
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return 4 * len(column) + _decoded_bytes(column.flatten())
    return int(column.nbytes)


def column_names(path: str | os.PathLike[str]) -> list[str]:
    with open_parquet(path, columns=()) as file:
        return list(file.schema_arrow.names)


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the JSON document passed to `parquet_writer`; empty if there was none.

    Raises DataError as `open_parquet` does, and if the document is not a JSON object.
    """
    with open_parquet(path, columns=()) as file, _damage(path, "its description cannot be read"):
        metadata = parse_json((file.metadata.metadata or {}).get(METADATA_KEY, b"{}"))
    document: dict[str, Any] = check(dict[str, Any], metadata, before=f"{path}, its description, ")
    return document
