"""Attributions as Arrow tables and Parquet files, one row per attribution.

The columns are the fields of an `Attribution`, and their types are derived from its annotations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from explearn.core.attribution import Attribution
from explearn.core.attribution_fields import as_shape, attribution_shape
from explearn.core.documents import PathLike
from explearn.core.errors import located
from explearn.core.parquet import read_table, write_table

_PLAIN: dict[Any, pa.DataType] = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}


def arrow_type(annotation: Any) -> pa.DataType:
    """Return the Arrow type of a field's annotation: lists for tuples and arrays, structs for shapes."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin = get_origin(annotation)
    arguments = [argument for argument in get_args(annotation) if argument is not NoneType]
    if origin is Literal:
        return pa.string()
    # NDArray is an alias for ndarray up to numpy 2.4, and from then on a type of its own.
    if origin is np.ndarray or origin is NDArray:
        return pa.list_(pa.float32())
    if origin is tuple:
        return pa.list_(arrow_type(arguments[0]))
    if origin is not None:  # Annotated, or a type or None
        return arrow_type(arguments[0])
    return pa.struct([(name, arrow_type(field.annotation)) for name, field in annotation.model_fields.items()])


ATTRIBUTION_SCHEMA = pa.schema(
    pa.field(field.alias or name, arrow_type(field.annotation), nullable=NoneType in get_args(field.annotation))
    for name, field in attribution_shape().model_fields.items()
)


def write_attributions(
    target: PathLike,
    attributions: Iterable[Attribution],
    metadata: Mapping[str, Any] | None = None,
    what: str | None = None,
) -> None:
    """Write attributions as a Parquet file.

    Args:
        target: the file, which is put in place once it is complete.
        attributions: one row each.
        metadata: what the file says of its content (`explearn.core.parquet.read_metadata`).
        what: as for `explearn.core.writing.atomic_path`.
    """
    rows = [as_shape(attribution).model_dump(by_alias=True) for attribution in attributions]
    write_table(target, rows, ATTRIBUTION_SCHEMA, metadata, what)


def read_attributions(path: PathLike) -> list[Attribution]:
    """Read attributions from a Parquet file.

    Args:
        path: a file that `write_attributions` wrote.

    Raises:
        DataError: a row is broken; the message names file and row, from 1.
    """
    attributions = []
    for number, row in enumerate(read_table(path, ATTRIBUTION_SCHEMA).to_pylist(), start=1):
        with located(f"{path}, row {number}: "):
            attributions.append(Attribution.from_dict(row))
    return attributions
