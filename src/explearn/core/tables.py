"""Old names, on their way out."""

from explearn.core.parquet import (
    LIMIT,
    METADATA_KEY,
    check_schema,
    column_names,
    iter_rows,
    open_parquet,
    parquet_limit,
    read_group,
    read_metadata,
    read_table,
)

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
