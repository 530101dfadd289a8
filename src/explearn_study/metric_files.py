"""Values by text and comparisons of methods as Parquet files, as they pass between stages."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from explearn.core.arrays import Array
from explearn.core.parquet import make_schema, parquet_writer, read_table

if TYPE_CHECKING:
    # It imports torch, which takes seconds; reading results does not need it.
    from explearn.evaluation import Evaluation

_STRING = pa.string()

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
