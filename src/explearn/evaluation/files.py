"""Values by text and comparisons of methods as Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from explearn.core.arrays import Array
from explearn.core.documents import PathLike
from explearn.core.parquet import make_schema, parquet_writer, read_table
from explearn.metrics.significance import PairedTests

_STRING = pa.string()

VALUE_SCHEMA = make_schema(("value",), metric=_STRING, method=_STRING, example_id=_STRING, value=pa.float64())
"""One row per metric, method and text; value is null if undefined."""

TESTED = ("texts", "p_values", "adjusted", "direction")
"""Matrices of `PairedTests`."""

_NUMBERS = dict.fromkeys((*TESTED, "value"), pa.float64())

PAIR_SCHEMA = make_schema(_NUMBERS, metric=_STRING, first=_STRING, second=_STRING, **_NUMBERS)
"""One row per metric and ordered pair of methods, including each method with itself: the matrices of the paired tests,
row by row; or, for the metric AGREEMENT, its value. Null if undefined."""

AGREEMENT = "rank_agreement"

Pairs = tuple[str, list[str], dict[str, Array]]
"""A metric, its m methods, and its matrices by column, (m, m)."""


def write_values(
    path: PathLike, example_ids: Mapping[str, Sequence[str]], by_text: Mapping[str, Mapping[str, Array]]
) -> None:
    """Write every metric's value on every text, in VALUE_SCHEMA.

    Args:
        path: the file.
        example_ids: metric -> its n texts.
        by_text: metric -> method -> value on each text, (n,).
    """
    with parquet_writer(path, VALUE_SCHEMA) as writer:
        for metric, methods in by_text.items():
            for method, values in methods.items():
                rows = {
                    "metric": [metric] * len(values),
                    "method": [method] * len(values),
                    "example_id": example_ids[metric],
                    "value": pa.array(values, from_pandas=True),
                }
                writer.write_table(pa.table(rows, VALUE_SCHEMA))


def read_values(path: PathLike) -> dict[str, dict[str, Array]]:
    """Return metric -> method -> value on each text, (texts,), in one order for all; NaN where undefined.

    Raises:
        DataError: the file is missing or damaged.
    """
    by_text: dict[str, dict[str, Array]] = {}
    for (metric, method), rows in _runs(read_table(path, VALUE_SCHEMA), "metric", "method"):
        by_text.setdefault(metric, {})[method] = _numbers(rows, "value")
    return by_text


def write_pairs(
    path: PathLike, comparisons: Mapping[str, PairedTests], methods: Sequence[str], agreement: Array
) -> None:
    """Write tests and agreement of every two methods, in PAIR_SCHEMA.

    Args:
        path: the file.
        comparisons: metric -> paired tests.
        methods: the m methods of `agreement`.
        agreement: (m, m), or empty.
    """
    pairs: list[Pairs] = []
    if agreement.size:
        pairs.append((AGREEMENT, list(methods), {"value": agreement}))
    for metric, tests in comparisons.items():
        pairs.append((metric, list(tests.methods), {name: getattr(tests, name) for name in TESTED}))
    with parquet_writer(path, PAIR_SCHEMA) as writer:
        for metric, names, matrices in pairs:
            count = len(names)
            rows = {
                "metric": [metric] * count**2,
                "first": np.repeat(names, count).tolist(),
                "second": names * count,
            }
            for column in _NUMBERS:
                values = np.ravel(matrices.get(column, np.full(count**2, np.nan))).astype(np.float64)
                rows[column] = pa.array(values, from_pandas=True)
            writer.write_table(pa.table(rows, PAIR_SCHEMA))


def read_pairs(path: PathLike) -> Iterator[Pairs]:
    """Yield what `write_pairs` wrote, one metric at a time.

    Raises:
        DataError: the file is missing or damaged.
    """
    for (metric,), rows in _runs(read_table(path, PAIR_SCHEMA), "metric"):
        methods = list(dict.fromkeys(rows["first"].to_pylist()))
        shape = len(methods), len(methods)
        yield metric, methods, {column: _numbers(rows, column).reshape(shape) for column in _NUMBERS}


def _numbers(rows: pa.Table, column: str) -> Array:
    return np.asarray(rows[column].to_numpy(), dtype=np.float64)


def _runs(table: pa.Table, *keys: str) -> Iterator[tuple[list[str], pa.Table]]:
    """Yield each run of rows with the same keys: the keys, and the rows."""
    columns = [table[key].to_pylist() for key in keys]
    start = 0
    for end in range(1, len(table) + 1):
        if end == len(table) or any(column[end] != column[start] for column in columns):
            yield [column[start] for column in columns], table.slice(start, end - start)
            start = end
