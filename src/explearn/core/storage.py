"""The records that pass between stages as Parquet files with fixed schemas."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pyarrow as pa

from explearn.core.errors import DataError, located
from explearn.core.parquet import (
    make_schema,
    open_parquet,
    read_table,
    write_table,
)
from explearn.core.records import Attribution, Example, Rationale, check_mask_length

_STRING, _STRINGS, _NUMBERS = pa.string(), pa.list_(pa.string()), pa.list_(pa.float32())

EXAMPLE_SCHEMA = make_schema(id=_STRING, words=_STRINGS, pair=_STRINGS, label=_STRING, split=_STRING, task=_STRING)
EXTRA_FIELDS = {name: pa.field(name, pa.list_(pa.int32())) for name in ("answer", "joined")}
"""Optional columns: for questions, and for texts with words that are not separated by white space."""

RATIONALE_SCHEMA = make_schema(example_id=_STRING, annotator=_STRING, kind=_STRING, mask=pa.list_(pa.bool_()))

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


def _rows(records: Iterable[Any], schema: pa.Schema) -> list[dict[str, Any]]:
    return [{name: getattr(record, name) for name in schema.names} for record in records]


def write_examples(target: str | os.PathLike[str], examples: Iterable[Example]) -> None:
    examples = list(examples)
    schema = _example_schema([name for name in EXTRA_FIELDS if any(getattr(e, name) for e in examples)])
    write_table(target, _rows(examples, schema), schema)


def _example_schema(extra: Collection[str]) -> pa.Schema:
    return pa.schema([*EXAMPLE_SCHEMA, *(field for name, field in EXTRA_FIELDS.items() if name in extra)])


def read_examples(path: str | os.PathLike[str]) -> list[Example]:
    """Read examples. Raises DataError naming file and row (from 1) for a broken record or a repeated id."""
    examples: dict[str, Example] = {}
    with open_parquet(path, columns=()) as file:
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

    Raises DataError naming file, row (from 1) and field for an unknown id or kind, or a mask of the wrong length.
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


def write_attributions(
    target: str | os.PathLike[str], attributions: Iterable[Attribution], metadata: Mapping[str, Any] | None = None
) -> None:
    attributions = list(attributions)
    schema = _attribution_schema(any(attribution.unit != "word" for attribution in attributions))
    write_table(target, _rows(attributions, schema), schema, metadata)


def _attribution_schema(units: bool) -> pa.Schema:
    return ATTRIBUTION_SCHEMA.append(_UNIT) if units else ATTRIBUTION_SCHEMA


def read_attributions(path: str | os.PathLike[str]) -> list[Attribution]:
    """Read attributions. Raises DataError naming file and row (from 1) for a broken record, and a text that is repeated
    for a class."""
    attributions: dict[tuple[str, str], Attribution] = {}
    with open_parquet(path, columns=()) as file:
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
