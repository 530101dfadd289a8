"""Fields of a JSON record, checked one by one; every error names the field."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explearn.core.errors import DataError

_REQUIRED: Any = object()

_KINDS = {str: "a string", float: "a number", int: "a whole number", bool: "true or false"}


def field(record: Mapping[str, Any], name: str, kind: type, default: Any = _REQUIRED) -> Any:
    """A field of a record, checked; null counts as absent where there is a default."""
    value = record.get(name)
    if value is None:
        if default is _REQUIRED:
            raise DataError(f"field {name!r} is missing; expected {_KINDS[kind]}")
        return default
    kinds = (int, float) if kind is float else kind
    if not isinstance(value, kinds) or (isinstance(value, bool) and kind is not bool):
        raise DataError(f"field {name!r}: got {value!r}; expected {_KINDS[kind]}")
    return value


def strings(record: Mapping[str, Any], name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
    value = record.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise DataError(f"field {name!r}: got {_shown(value)}; expected a list of strings")
    return tuple(value)


def numbers(
    record: Mapping[str, Any],
    name: str,
    count: int,
    unit: str,
    missing: bool = False,
    default: Sequence[float] | None = None,
) -> NDArray[np.float32]:
    """One finite number a unit, float32; where one may be `missing` it is NaN."""
    values = record.get(name)
    if values is None and default is not None and not count:
        values = default
    if not isinstance(values, list | tuple):
        raise DataError(f"field {name!r}: got {_shown(values)}; expected a list of numbers, one a {unit}")
    if len(values) != count:
        raise DataError(f"field {name!r} has {len(values)} entries; expected {count}, one a {unit}")
    for place, value in enumerate(values):
        if value is None and missing:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise DataError(f"field {name!r}, {unit} {place}: got {value!r}; expected a finite number")
    return np.array([math.nan if value is None else value for value in values], dtype=np.float32)


def _shown(value: object) -> str:
    return "none" if value is None else repr(value)[:60]


def spans(record: Mapping[str, Any], count: int) -> tuple[tuple[int, int], ...]:
    """Of each word [start, end) in characters; empty where the record has none."""
    values = record.get("spans") or ()
    if not isinstance(values, list | tuple) or len(values) not in (0, count):
        raise DataError(f"field 'spans': got {_shown(values)}; expected {count} pairs of whole numbers, or none")
    for place, value in enumerate(values):
        whole = isinstance(value, list | tuple) and len(value) == 2 and all(type(end) is int for end in value)
        if not whole or not 0 <= value[0] <= value[1]:
            raise DataError(f"field 'spans', word {place}: got {_shown(value)}; expected [start, end) in characters")
    return tuple((int(start), int(end)) for start, end in values)
