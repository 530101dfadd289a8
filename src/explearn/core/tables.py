"""Reading Parquet: only the columns asked for, and no more than a stated size once it is decoded.

A few hundred bytes of Parquet can stand for gigabytes: one long value repeated through a dictionary, or runs of equal
numbers. So a file is judged before it is decoded: by the sizes and counts of its metadata, and, as strings stay in
their dictionaries until then, by the length that they would have.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from explearn.core.documents import check_regular, parse_json
from explearn.core.errors import DataError, ParamsError, first_line
from explearn.core.settings import whole_number

METADATA_KEY = b"explearn"
"""Key of the JSON document that describes a Parquet file's content, in the file's own metadata."""

LIMIT = "EXPLEARN_PARQUET_LIMIT_MB"
"""Environment variable: most MiB of a Parquet file's columns that are read, decoded."""

LIMIT_MB = 4096

ROWS_AT_ONCE = 4096
"""Rows decoded together where a whole table is read."""

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 4}
"""Bytes of a decoded value, at least, by physical type."""


def parquet_limit(environment: Mapping[str, str] = os.environ) -> int:
    """Most bytes. Raises ParamsError where the environment's is no positive whole number of MiB."""
    written = environment.get(LIMIT, "").strip() or str(LIMIT_MB)
    limit = whole_number(written)
    if not limit:
        raise ParamsError(f"{LIMIT}: got {written[:40]!r}; expected a positive whole number of MiB")
    return limit * 2**20


@contextmanager
def open_parquet(path: str | os.PathLike[str], schema: pa.Schema | None = None) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file and check its columns and types against `schema`.

    Raises DataError naming the file (missing, cut short, not Parquet), a column that comes twice, is missing or of
    another type, or a group of rows that is larger than the limit once decoded.
    """
    with _opened(path, None if schema is None else schema.names, whole=False) as file:
        if schema is not None:
            check_schema(file.schema_arrow, schema, path)
        yield file


@contextmanager
def _opened(
    path: str | os.PathLike[str], columns: Collection[str] | None, whole: bool, coded: bool = False
) -> Iterator[pq.ParquetFile]:
    """`whole`: all rows together must be within the limit, not just each group. `coded`: leave strings coded."""
    try:
        check_regular(path)
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path}: not a whole Parquet file ({_reason(error)}); create it again") from error
    with file:
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"{path}: column {twice!r} is there twice; expected each once")
        try:
            _check_size(file, path, columns, whole)
            leaves = [file.schema.column(i) for i in range(len(file.schema))]
            strings = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise DataError(f"{path}: not a whole Parquet file ({_reason(error)}); create it again") from error
        if not coded:
            yield file
            return
        with pq.ParquetFile(path, read_dictionary=strings) as coded_file:
            yield coded_file


def _reason(error: BaseException) -> str:
    return "bytes that are not valid UTF-8" if isinstance(error, UnicodeDecodeError) else first_line(error)


def _check_size(
    file: pq.ParquetFile, path: str | os.PathLike[str], columns: Collection[str] | None, whole: bool
) -> None:
    limit, total = parquet_limit(), 0
    metadata = file.metadata
    for group in range(metadata.num_row_groups):
        found = metadata.row_group(group)
        size = 0
        for index in range(found.num_columns):
            column = found.column(index)
            if columns is None or column.path_in_schema.partition(".")[0] in columns:
                width = _WIDTHS.get(column.physical_type, 1)
                size += max(column.total_uncompressed_size, column.num_values * width)
        total = total + size if whole else max(total, size)
    if total > limit:
        raise _too_large(path, total, limit)


def _too_large(path: str | os.PathLike[str], size: int, limit: int) -> DataError:
    return DataError(
        f"{path}: would take {size / 2**20:,.0f} MiB or more once decoded; expected at most {limit / 2**20:,.0f} "
        f"({LIMIT} sets the limit)"
    )


def check_schema(found: pa.Schema, expected: pa.Schema, path: str | os.PathLike[str]) -> None:
    for field in expected:
        if field.name not in found.names:
            raise DataError(
                f"{path}: column {field.name!r} is missing; expected {', '.join(expected.names)}, "
                f"got {', '.join(found.names)}"
            )
        got = found.field(field.name).type
        if not got.equals(field.type):
            raise DataError(f"{path}: column {field.name!r} has type {got}; expected {field.type}")


def read_table(path: str | os.PathLike[str], schema: pa.Schema) -> pa.Table:
    """Read the columns of a schema. Raises DataError as `open_parquet` does, also when a later page is damaged, and
    for a column without nulls in the schema that has some."""
    with open_parquet(path, schema):
        pass
    plain = pa.schema([field.with_nullable(True) for field in schema])
    parts = []
    for batch in _batches(path, ROWS_AT_ONCE, schema.names):
        try:
            part = pa.Table.from_batches([batch]).select(schema.names).cast(plain)
            part.validate(full=True)  # finds bytes that are not UTF-8, and lists that overlap
            parts.append(part)
        except (pa.ArrowException, ValueError) as error:
            raise DataError(f"{path}: damaged ({_reason(error)}); create it again") from error
    table = pa.concat_tables(parts) if parts else plain.empty_table()
    check_full(table, schema, path)
    return table


def read_group(file: pq.ParquetFile, group: int, schema: pa.Schema, path: str | os.PathLike[str]) -> pa.Table:
    """The columns of a schema of one group of rows, for files too large to be read at once.

    Raises DataError for a damaged group, and where a column without nulls in the schema, or a list in it, has some.
    """
    try:
        table = file.read_row_group(group, columns=schema.names)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path}: damaged ({_reason(error)}); create it again") from error
    check_full(table, schema, path)
    return table


def check_full(table: pa.Table, schema: pa.Schema, path: str | os.PathLike[str]) -> None:
    """Raise DataError, naming row (from 1) and field, for a null in a column without nulls, or in a list in one."""
    for field in schema:
        if field.nullable:
            continue
        inside = table.column(field.name).combine_chunks()
        rows, what = None, f"got nothing; expected a value of {field.type}"
        while True:
            if inside.null_count:
                index = pc.index(pc.is_null(inside), True).as_py()
                row = 1 + (index if rows is None else rows[index].as_py())
                raise DataError(f"{path}, row {row}, field {field.name!r}: {what}")
            if not (pa.types.is_list(inside.type) or pa.types.is_fixed_size_list(inside.type)):
                break
            parents = pc.list_parent_indices(inside)
            rows, what = (
                parents if rows is None else rows.take(parents),
                "a list has an entry without a value; expected none",
            )
            inside = pc.list_flatten(inside)


def decoded_bytes(column: pa.ChunkedArray | pa.Array) -> int:
    """Bytes that a column has once its strings are written out."""
    if isinstance(column, pa.ChunkedArray):
        return sum(decoded_bytes(chunk) for chunk in column.chunks)
    if pa.types.is_dictionary(column.type):
        lengths = pc.binary_length(column.dictionary)
        # In int64: the sum of lengths passes 2^31.
        return 4 * len(column) + int(pc.sum(lengths.cast(pa.int64()).take(column.indices)).as_py() or 0)
    if pa.types.is_struct(column.type):
        return sum(decoded_bytes(child) for child in column.flatten())
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return 4 * len(column) + decoded_bytes(column.flatten())
    return int(column.nbytes)


def iter_rows(
    path: str | os.PathLike[str], batch_rows: int, columns: Collection[str] | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row number from 1, column -> value); columns that are not asked for are not decoded.

    Args:
        batch_rows: rows turned into Python objects at a time.
        columns: names; those that the file does not have are passed over. Default: all.

    Raises DataError as `open_parquet` does, and for a file that is damaged or larger than the limit once decoded.
    """
    number = 0
    for batch in _batches(path, batch_rows, columns):
        try:
            rows = batch.to_pylist()
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise DataError(f"{path}, after row {number}: damaged ({_reason(error)}); create it again") from error
        for row in rows:
            number += 1
            yield number, row


def _batches(
    path: str | os.PathLike[str], batch_rows: int, columns: Collection[str] | None
) -> Iterator[pa.RecordBatch]:
    """Batches with their strings still coded, up to the limit. Raises DataError as `iter_rows` does."""
    number = size = 0
    limit = parquet_limit()
    with _opened(path, columns, whole=True, coded=True) as file:
        wanted = [name for name in file.schema_arrow.names if columns is None or name in columns]
        # Each group of rows by itself: pyarrow does not put the dictionaries of two into one list column.
        for group in range(file.num_row_groups):
            batches = file.iter_batches(batch_size=batch_rows, columns=wanted, row_groups=[group])
            while True:
                try:
                    batch = next(batches, None)
                    if batch is None:
                        break
                    size += sum(decoded_bytes(column) for column in batch.columns)
                except (pa.ArrowException, OSError, ValueError) as error:
                    raise DataError(
                        f"{path}, after row {number}: damaged ({_reason(error)}); create it again"
                    ) from error
                if size > limit:
                    raise _too_large(path, size, limit)
                number += batch.num_rows
                yield batch


def column_names(path: str | os.PathLike[str]) -> list[str]:
    with _opened(path, (), whole=False) as file:
        return list(file.schema_arrow.names)


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON document given to `parquet_writer`; empty when there was none.

    Raises DataError as `open_parquet` does, and where the document is no JSON object.
    """
    with _opened(path, (), whole=False) as file:
        raw = (file.metadata.metadata or {}).get(METADATA_KEY, b"{}")
    try:
        found = parse_json(raw)
        if not isinstance(found, dict):
            raise ValueError(f"got {type(found).__name__}; expected a JSON object")
    except ValueError as error:
        raise DataError(f"{path}: its description is of no use ({first_line(error)}); create it again") from error
    return found


__all__ = [
    "LIMIT",
    "METADATA_KEY",
    "check_schema",
    "column_names",
    "iter_rows",
    "open_parquet",
    "parquet_limit",
    "read_group",
    "read_metadata",
    "read_table",
]
