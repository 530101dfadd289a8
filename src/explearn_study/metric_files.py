"""What the stage evaluate keeps besides the figures: the texts' own values, and how each two methods compare."""

from __future__ import annotations

import os
from collections import defaultdict
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from explearn.core.errors import DataError
from explearn.core.shapes import read_document
from explearn.core.storage import parquet_writer, read_table, write_json
from explearn.judge.significance import PairedTests
from explearn_study.shapes import Comparisons

if TYPE_CHECKING:
    # It imports torch, which takes seconds; reading results does not need it.
    from explearn.judge.evaluate import TaskEvaluation

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

TESTED = ("texts", "p_values", "adjusted", "direction")

PAIR_SCHEMA = pa.schema(
    [
        pa.field("metric", pa.string(), nullable=False),
        pa.field("first", pa.string(), nullable=False),
        pa.field("second", pa.string(), nullable=False),
        *(pa.field(name, pa.float64()) for name in (*TESTED, "value")),
    ]
)
"""One row a metric and two methods, in either order, and each method with itself: the matrices of `PairedTests`, row by
row; or, for a measure of agreement, its value. Null where undefined."""


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


def read_by_text(path: Path) -> dict[str, dict[str, Array]]:
    """metric -> method -> value on each text, (texts,), in one order for all; NaN where undefined.

    Raises DataError for a missing or damaged file, and where a method lacks texts.
    """
    by_text: dict[str, dict[str, Array]] = defaultdict(dict)
    order = None
    for (metric, method), rows in read_table(path, TEXT_SCHEMA).to_pandas().groupby(["metric", "method"], sort=False):
        ids = list(rows["example_id"])
        order = order or ids
        if ids != order:
            raise DataError(
                f"{path}: {metric} of {method} has {len(ids)} texts; expected the same {len(order)} as of all others; "
                "run evaluate again"
            )
        by_text[metric][method] = rows["value"].to_numpy(dtype=np.float64)
    return dict(by_text)


def write_comparisons(summary: Path, pairs: Path, evaluation: TaskEvaluation) -> None:
    """Write who is best and who ties, metric by metric, as JSON, and the matrices pair by pair in PAIR_SCHEMA."""
    with parquet_writer(pairs, PAIR_SCHEMA) as writer:

        def write(metric: str, methods: list[str], **matrices: Array) -> None:
            count = len(methods) ** 2
            columns = {
                "metric": [metric] * count,
                "first": [method for method in methods for _ in methods],
                "second": methods * len(methods),
                **{name: [None] * count for name in (*TESTED, "value")},
                **{name: pa.array(np.ravel(matrix) * 1.0, from_pandas=True) for name, matrix in matrices.items()},
            }
            writer.write_table(pa.table(columns, schema=PAIR_SCHEMA))

        for metric, tests in evaluation.comparisons.items():
            write(metric, list(tests.methods), **{name: getattr(tests, name) for name in TESTED})
        for name, matrix in evaluation.agreement.items():
            write(name, list(evaluation.metrics), value=matrix)
    write_json(
        summary,
        {
            "methods": list(evaluation.metrics),
            "agreement": list(evaluation.agreement),
            "metrics": {
                metric: {
                    "larger_is_better": tests.larger_is_better,
                    "best": list(tests.best),
                    "tied": list(tests.tied),
                    "values": dict(zip(tests.methods, tests.values.tolist(), strict=True)),
                    "texts": dict(zip(tests.methods, np.diag(tests.texts).tolist(), strict=True)),
                }
                for metric, tests in evaluation.comparisons.items()
            },
        },
    )


def read_comparisons(
    summary: Path, pairs: Path, significance: float = 0.05
) -> tuple[dict[str, PairedTests], dict[str, Array]]:
    """What `write_comparisons` wrote: comparisons by metric, and (methods, methods) matrices of agreement by name.

    The methods of the matrices stand in the order of the summary's `methods`.
    Raises DataError for a missing or damaged file, or files that do not belong together.
    """
    document = read_document(summary, Comparisons, "evaluate")
    tables = dict(iter(read_table(pairs, PAIR_SCHEMA).to_pandas().groupby("metric", sort=False)))

    def matrix(metric: str, column: str, methods: list[str]) -> Array:
        rows = tables.get(metric)
        if rows is None or list(rows["second"])[: isqrt(len(rows))] != methods:
            if methods:
                raise DataError(f"{summary} and {pairs} do not belong together ({metric}); run evaluate again")
            return np.zeros((0, 0))
        return np.asarray(rows[column].to_numpy(dtype=np.float64).reshape(len(methods), -1))

    comparisons = {}
    for metric, found in document["metrics"].items():
        methods = list(found["values"])
        of_tests = {name: matrix(metric, name, methods) for name in TESTED}
        comparisons[metric] = PairedTests(
            metric=metric,
            larger_is_better=found["larger_is_better"],
            methods=tuple(methods),
            values=np.array(list(found["values"].values()), dtype=np.float64),
            texts=of_tests["texts"].astype(np.int64),
            p_values=of_tests["p_values"],
            adjusted=of_tests["adjusted"],
            direction=of_tests["direction"].astype(np.int8),
            significance=significance,
        )
    return comparisons, {name: matrix(name, "value", document["methods"]) for name in document["agreement"]}
