"""Attributions as Parquet files with a fixed schema."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from explearn.core.attribution import Attribution
from explearn.core.errors import DataError, located
from explearn.core.parquet import (
    make_schema,
    open_parquet,
    read_table,
    write_table,
)

_STRING, _STRINGS, _NUMBERS = pa.string(), pa.list_(pa.string()), pa.list_(pa.float32())

ATTRIBUTION_SCHEMA = make_schema(
    example_id=_STRING,
    method=_STRING,
    target=_STRING,
    predicted=_STRING,
    probability=pa.float64(),
    words=_STRINGS,
    scores=_NUMBERS,
    tokens=_STRINGS,
    token_scores=_NUMBERS,
    aggregation=_STRING,
    signed=pa.bool_(),
    unaligned=pa.int32(),
    completeness_error=pa.float64(),
    nullable=("completeness_error",),
)
_UNIT = pa.field("unit", _STRING)
"""Optional column: for attributions whose units are not words."""


def write_attributions(
    target: str | os.PathLike[str], attributions: Iterable[Attribution], metadata: Mapping[str, Any] | None = None
) -> None:
    attributions = list(attributions)
    schema = _attribution_schema(any(attribution.unit != "word" for attribution in attributions))
    rows = [{name: getattr(attribution, name) for name in schema.names} for attribution in attributions]
    write_table(target, rows, schema, metadata)


def _attribution_schema(units: bool) -> pa.Schema:
    return ATTRIBUTION_SCHEMA.append(_UNIT) if units else ATTRIBUTION_SCHEMA


def read_attributions(path: str | os.PathLike[str]) -> list[Attribution]:
    """Read attributions. Raises DataError naming file and row (from 1) for a broken record, and a text that is repeated
    for a class."""
    attributions: dict[tuple[str, str], Attribution] = {}
    with open_parquet(path) as file:
        schema = _attribution_schema(_UNIT.name in file.schema_arrow.names)
    for number, row in enumerate(read_table(path, schema).to_pylist(), start=1):
        key = row["example_id"], row["target"]
        if key in attributions:
            raise DataError(
                f"{path}, row {number}, field 'example_id': {key[0]!r} comes twice for the class {key[1]!r}; expected "
                "each once"
            )
        with located(f"{path}, row {number}: "):
            attributions[key] = Attribution.from_record({**row, "id": row["example_id"]})
    return list(attributions.values())
