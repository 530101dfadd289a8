"""Examples and rationales as Parquet files, as they pass between stages."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

import pyarrow as pa

from explearn.core.documents import PathLike
from explearn.core.errors import located
from explearn.core.examples import Example, Rationale
from explearn.core.parquet import make_schema, open_parquet, read_table, write_table

_STRING = pa.string()
_STRINGS = pa.list_(_STRING)

EXAMPLE_SCHEMA = make_schema(id=_STRING, words=_STRINGS, pair=_STRINGS, label=_STRING, split=_STRING, task=_STRING)
EXTRA_FIELDS = {"focus": pa.field("focus", pa.list_(pa.int32())), "gaps": pa.field("gaps", _STRINGS)}
"""Columns of the files that need them: labels about some words of a text, and texts with more than blanks between their
words."""

RATIONALE_SCHEMA = make_schema(example_id=_STRING, annotator=_STRING, kind=_STRING, mask=pa.list_(pa.bool_()))


def _rows(values: Iterable[Any], schema: pa.Schema) -> list[dict[str, Any]]:
    rows = []
    for value in values:
        rows.append({name: getattr(value, name) for name in schema.names})
    return rows


def write_examples(target: PathLike, examples: Iterable[Example]) -> None:
    rows = list(examples)
    schema = _example_schema(name for name in EXTRA_FIELDS if any(map(attrgetter(name), rows)))
    write_table(target, _rows(rows, schema), schema)


def _example_schema(columns: Iterable[str]) -> pa.Schema:
    return pa.schema([*EXAMPLE_SCHEMA, *(EXTRA_FIELDS[name] for name in columns if name in EXTRA_FIELDS)])


def read_examples(path: PathLike) -> list[Example]:
    """Read examples.

    Raises:
        DataError: a broken row; names file and row (from 1).
    """
    examples = []
    with open_parquet(path) as file:
        schema = _example_schema(file.schema_arrow.names)
    for number, row in enumerate(read_table(path, schema).to_pylist(), start=1):
        with located(f"{path}, row {number}: "):
            tuples = {name: tuple(row[name]) for name in ("words", "pair", *EXTRA_FIELDS) if row.get(name) is not None}
            examples.append(Example(**{**row, **tuples}))
    return examples


def write_rationales(target: PathLike, rationales: Iterable[Rationale]) -> None:
    write_table(target, _rows(rationales, RATIONALE_SCHEMA), RATIONALE_SCHEMA)


def read_rationales(path: PathLike) -> list[Rationale]:
    """Read rationales.

    Raises:
        DataError: a broken row; names file and row (from 1).
    """
    rationales = []
    for number, row in enumerate(read_table(path, RATIONALE_SCHEMA).to_pylist(), start=1):
        with located(f"{path}, row {number}: "):
            rationales.append(Rationale(row["example_id"], row["annotator"], row["kind"], tuple(row["mask"])))
    return rationales
