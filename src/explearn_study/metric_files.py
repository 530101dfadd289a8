"""What the stage evaluate keeps besides the figures: the texts' own values, and how each two methods compare."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from explearn.core.errors import DataError, problem_of
from explearn.core.shapes import read_document
from explearn.core.storage import parquet_writer, read_table, write_json, write_table
from explearn.judge.evaluate import TaskEvaluation
from explearn.judge.significance import PairedTests
from explearn_study.shapes import Comparisons

Array = NDArray[np.float64]
Path = str | os.PathLike[str]

TEXT_SCHEMA = pa.schema(
    [
        pa.field("metric", pa.string(), nullable=False),
        pa.field("method", pa.string(), nullable=False),
        pa.field("example_id", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
    ]
)
"""One row a metric, method and text; value is null where undefined."""

PAIR_SCHEMA = pa.schema(
    [
        pa.field("metric", pa.string(), nullable=False),
        pa.field("first", pa.string(), nullable=False),
        pa.field("second", pa.string(), nullable=False),
        pa.field("texts", pa.int64()),
        pa.field("p_value", pa.float64()),
        pa.field("adjusted", pa.float64()),
        pa.field("direction", pa.int64()),
        pa.field("value", pa.float64()),
    ]
)
"""One row a metric and pair of methods: texts compared, p-value and its correction, and the direction: 1 where the
first has the larger values on them, -1 where the second has, else 0; or, for a measure of agreement, its value."""


def write_by_text(path: Path, evaluation: TaskEvaluation) -> None:
    """Write every metric's value on every text, in TEXT_SCHEMA."""
    ids = list(evaluation.example_ids)
    with parquet_writer(path, TEXT_SCHEMA) as writer:
        for metric, methods in evaluation.by_text.items():
            columns = [
                [metric] * (len(methods) * len(ids)),
                [method for method in methods for _ in ids],
                ids * len(methods),
                # NaN becomes null.
                pa.array(np.concatenate(list(methods.values())), from_pandas=True),
            ]
            writer.write_table(pa.table(columns, schema=TEXT_SCHEMA))


def read_by_text(path: Path) -> dict[str, dict[str, dict[str, float | None]]]:
    """metric -> method -> example id -> value; raises DataError for a missing or damaged file."""
    found: dict[str, dict[str, dict[str, float | None]]] = defaultdict(lambda: defaultdict(dict))
    for row in read_table(path, TEXT_SCHEMA).to_pylist():
        found[row["metric"]][row["method"]][row["example_id"]] = row["value"]
    return {metric: dict(methods) for metric, methods in found.items()}


def write_comparisons(summary: Path, pairs: Path, evaluation: TaskEvaluation) -> None:
    """Write who is best and who ties, metric by metric, as JSON, and the tests pair by pair in PAIR_SCHEMA."""
    rows: list[dict[str, object]] = []
    for metric, comparison in evaluation.comparisons.items():
        for (i, first), (j, second) in combinations(enumerate(comparison.methods), 2):
            rows.append(
                {
                    "metric": metric,
                    "first": first,
                    "second": second,
                    "texts": int(comparison.texts[i, j]),
                    "p_value": float(comparison.p_values[i, j]),
                    "adjusted": float(comparison.adjusted[i, j]),
                    "direction": int(comparison.direction[i, j]),
                }
            )
    methods = list(evaluation.metrics)
    for name, matrix in evaluation.agreement.items():
        for (i, first), (j, second) in combinations(enumerate(methods), 2):
            value = None if np.isnan(matrix[i, j]) else float(matrix[i, j])
            rows.append({"metric": name, "first": first, "second": second, "value": value})
    write_table(pairs, rows, PAIR_SCHEMA)
    write_json(
        summary,
        {
            "methods": methods,
            "agreement": list(evaluation.agreement),
            "metrics": {
                metric: {
                    "larger_is_better": comparison.larger_is_better,
                    "best": list(comparison.best),
                    "tied": list(comparison.tied),
                    "values": dict(zip(comparison.methods, comparison.values.tolist(), strict=True)),
                    "texts": dict(zip(comparison.methods, np.diag(comparison.texts).tolist(), strict=True)),
                }
                for metric, comparison in evaluation.comparisons.items()
            },
        },
    )


def read_comparisons(summary: Path, pairs: Path) -> tuple[dict[str, PairedTests], dict[str, Array]]:
    """What `write_comparisons` wrote: comparisons by metric, and (methods, methods) matrices of agreement by name.

    The methods of the matrices stand in the order of the summary's `methods`.
    Raises DataError for a missing or damaged file, or files that do not belong together.
    """
    document: dict[str, Any] = read_document(summary, Comparisons, "evaluate")
    rows: dict[str, dict[tuple[str, str], dict[str, Any]]] = defaultdict(dict)
    for row in read_table(pairs, PAIR_SCHEMA).to_pylist():
        rows[row["metric"]][row["first"], row["second"]] = row
    try:
        comparisons = {name: _comparison(name, found, rows[name]) for name, found in document["metrics"].items()}
        agreement = {
            name: _matrix(document["methods"], rows[name], "value", np.ones(len(document["methods"])))
            for name in document["agreement"]
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{summary} and {pairs} do not belong together ({problem_of(error)}); run evaluate again"
        ) from error
    return comparisons, agreement


def _comparison(name: str, found: dict[str, Any], rows: dict[tuple[str, str], dict[str, Any]]) -> PairedTests:
    methods = list(found["values"])
    ones = np.ones(len(methods))
    texts = np.array([found["texts"][method] for method in methods], dtype=np.float64)
    direction = _matrix(methods, rows, "direction", np.zeros(len(methods)))
    return PairedTests(
        metric=name,
        larger_is_better=found["larger_is_better"],
        methods=tuple(methods),
        values=np.array(list(found["values"].values()), dtype=np.float64),
        texts=_matrix(methods, rows, "texts", texts).astype(np.int64),
        p_values=_matrix(methods, rows, "p_value", ones),
        adjusted=_matrix(methods, rows, "adjusted", ones),
        direction=(np.triu(direction) - np.triu(direction).T).astype(np.int8),
        best=tuple(found["best"]),
        tied=tuple(found["tied"]),
    )


def _matrix(methods: list[str], rows: dict[tuple[str, str], dict[str, Any]], column: str, diagonal: Array) -> Array:
    """Symmetric matrix from the pairs above its diagonal."""
    matrix = np.diag(diagonal)
    for i, j, pair in _pairs(methods):
        value = rows[pair][column]
        matrix[i, j] = matrix[j, i] = np.nan if value is None else value
    return matrix


def _pairs(methods: list[str]) -> Iterator[tuple[int, int, tuple[str, str]]]:
    for (i, first), (j, second) in combinations(enumerate(methods), 2):
        yield i, j, (first, second)
