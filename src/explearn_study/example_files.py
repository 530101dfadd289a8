"""Examples, rationales, values by text and comparisons of methods as Parquet files, as they pass between stages."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import product
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from explearn.core.arrays import Array
from explearn.core.documents import PathLike
from explearn.core.errors import located
from explearn.core.examples import Example, Rationale
from explearn.core.parquet import make_schema, open_parquet, parquet_writer, read_table, write_table

if TYPE_CHECKING:
    # It imports torch, which takes seconds; reading results does not need it.
    from explearn.evaluation import Evaluation

_STRING = pa.string()
_STRINGS = pa.list_(_STRING)

EXAMPLE_SCHEMA = make_schema(id=_STRING, words=_STRINGS, pair=_STRINGS, label=_STRING, split=_STRING, task=_STRING)
EXTRA_FIELDS = {"answer": pa.field("answer", pa.list_(pa.int32())), "gaps": pa.field("gaps", _STRINGS)}
"""Columns of the files that need them: those of questions, and of texts with more than blanks between their words."""

RATIONALE_SCHEMA = make_schema(example_id=_STRING, annotator=_STRING, kind=_STRING, mask=pa.list_(pa.bool_()))


def _rows(records: Iterable[Any], schema: pa.Schema) -> list[dict[str, Any]]:
    rows = []
    for record in records:
        rows.append({name: getattr(record, name) for name in schema.names})
    return rows


def write_examples(target: PathLike, examples: Iterable[Example]) -> None:
    rows = list(examples)
    schema = _example_schema([name for name in EXTRA_FIELDS if any(map(attrgetter(name), rows))])
    write_table(target, _rows(rows, schema), schema)


def _example_schema(extra: Collection[str]) -> pa.Schema:
    return pa.schema([*EXAMPLE_SCHEMA, *(field for name, field in EXTRA_FIELDS.items() if name in extra)])


def read_examples(path: PathLike) -> list[Example]:
    """Read examples.

    Raises:
        DataError: a broken record; names file and row (from 1).
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
        DataError: a broken record; names file and row (from 1).
    """
    rationales = []
    for number, row in enumerate(read_table(path, RATIONALE_SCHEMA).to_pylist(), start=1):
        with located(f"{path}, row {number}: "):
            rationales.append(Rationale(row["example_id"], row["annotator"], row["kind"], tuple(row["mask"])))
    return rationales


Path = str | os.PathLike[str]


TEXT_SCHEMA = make_schema(("value",), metric=_STRING, method=_STRING, example_id=_STRING, value=pa.float64())
"""One row per metric, method and text; value is null if undefined."""

TESTED = ("texts", "p_values", "adjusted", "direction")
"""Matrices of `PairedTests`."""

_NUMBERS = dict.fromkeys((*TESTED, "value"), pa.float64())

PAIR_SCHEMA = make_schema(_NUMBERS, metric=_STRING, first=_STRING, second=_STRING, **_NUMBERS)
"""One row per metric and ordered pair of methods, including each method with itself: the matrices of the paired tests,
row by row; or, for the metric AGREEMENT, its value. Null if undefined."""

AGREEMENT = "rank_agreement"


def write_by_text(path: Path, example_ids: Iterable[str], by_text: Mapping[str, Mapping[str, Array]]) -> None:
    """Write every metric's value on every text, in TEXT_SCHEMA.

    Args:
        path: the file.
        example_ids: the n texts.
        by_text: metric -> method -> value on each text, (n,).
    """
    ids = pd.Index(list(example_ids), name="example_id")
    with parquet_writer(path, TEXT_SCHEMA) as writer:
        for metric, methods in by_text.items():
            if not methods:
                continue
            rows = pd.DataFrame(methods, index=ids).melt(var_name="method", ignore_index=False).reset_index()
            rows["metric"] = metric
            writer.write_table(pa.Table.from_pandas(rows, TEXT_SCHEMA, preserve_index=False))


def read_by_text(path: Path) -> dict[str, dict[str, Array]]:
    """Return metric -> method -> value on each text, (texts,), in one order for all; NaN where undefined.

    Raises:
        DataError: the file is missing or damaged.
    """
    by_text: dict[str, dict[str, Array]] = defaultdict(dict)
    for (metric, method), rows in read_table(path, TEXT_SCHEMA).to_pandas().groupby(["metric", "method"], sort=False):
        by_text[metric][method] = rows["value"].to_numpy(dtype=np.float64)
    return dict(by_text)


def write_pairs(path: Path, evaluation: Evaluation) -> None:
    """Write tests and agreement of every two methods, in PAIR_SCHEMA."""
    with parquet_writer(path, PAIR_SCHEMA) as writer:

        def write(metric: str, methods: Collection[str], **matrices: Array) -> None:
            rows = pd.DataFrame(product(methods, repeat=2), columns=["first", "second"])
            rows["metric"] = metric
            for name, matrix in matrices.items():
                rows[name] = np.ravel(matrix).astype(np.float64)
            rows = rows.reindex(columns=PAIR_SCHEMA.names)
            writer.write_table(pa.Table.from_pandas(rows, PAIR_SCHEMA, preserve_index=False))

        for metric, tests in evaluation.comparisons.items():
            write(metric, tests.methods, **{name: getattr(tests, name) for name in TESTED})
        write(AGREEMENT, evaluation.figures, value=evaluation.agreement)
