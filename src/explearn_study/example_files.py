"""Examples and rationales as Parquet files with fixed schemas, as they pass between stages."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any

import pyarrow as pa

from explearn.core.errors import DataError, located
from explearn.core.examples import Example, Rationale, check_mask_length
from explearn.core.parquet import make_schema, open_parquet, read_table, write_table

_STRING, _STRINGS = pa.string(), pa.list_(pa.string())

EXAMPLE_SCHEMA = make_schema(id=_STRING, words=_STRINGS, pair=_STRINGS, label=_STRING, split=_STRING, task=_STRING)
EXTRA_FIELDS = {name: pa.field(name, pa.list_(pa.int32())) for name in ("answer", "joined")}
"""Columns of the files that need them: those of questions, and of texts with words that no white space separates."""

RATIONALE_SCHEMA = make_schema(example_id=_STRING, annotator=_STRING, kind=_STRING, mask=pa.list_(pa.bool_()))


def _rows(records: Iterable[Any], schema: pa.Schema) -> list[dict[str, Any]]:
    return [{name: getattr(record, name) for name in schema.names} for record in records]


def write_examples(target: str | os.PathLike[str], examples: Iterable[Example]) -> None:
    examples = list(examples)
    schema = _example_schema([name for name in EXTRA_FIELDS if any(getattr(e, name) for e in examples)])
    write_table(target, _rows(examples, schema), schema)


def _example_schema(extra: Collection[str]) -> pa.Schema:
    return pa.schema([*EXAMPLE_SCHEMA, *(field for name, field in EXTRA_FIELDS.items() if name in extra)])


def read_examples(path: str | os.PathLike[str]) -> list[Example]:
    """Raises DataError naming file and row (from 1) for a broken record or an id that comes twice."""
    examples: dict[str, Example] = {}
    with open_parquet(path) as file:
        schema = _example_schema(file.schema_arrow.names)
    for number, row in enumerate(read_table(path, schema).to_pylist(), start=1):
        if row["id"] in examples:
            raise DataError(f"{path}, row {number}, field 'id': {row['id']!r} comes twice; expected unique ids")
        with located(f"{path}, row {number}: "):
            tuples = {name: tuple(row[name]) for name in ("words", "pair", *EXTRA_FIELDS) if row.get(name) is not None}
            examples[row["id"]] = Example(**{**row, **tuples})
    return list(examples.values())


def write_rationales(target: str | os.PathLike[str], rationales: Iterable[Rationale]) -> None:
    write_table(target, _rows(rationales, RATIONALE_SCHEMA), RATIONALE_SCHEMA)


def read_rationales(path: str | os.PathLike[str], examples: Iterable[Example] | None = None) -> list[Rationale]:
    """Read rationales; with `examples`, check every mask's length against its example.

    Raises DataError naming file, row (from 1) and field for an unknown id, a kind that is none or a mask of
    the wrong length.
    """
    lengths = None if examples is None else {e.id: len(e.all_words) for e in examples}
    rationales: list[Rationale] = []
    for number, row in enumerate(read_table(path, RATIONALE_SCHEMA).to_pylist(), start=1):
        with located(f"{path}, row {number}: "):
            rationale = Rationale(row["example_id"], row["annotator"], row["kind"], tuple(row["mask"]))
            if lengths is not None:
                check_mask_length(rationale, lengths)
        rationales.append(rationale)
    return rationales
