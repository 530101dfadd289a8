"""Fields of a JSON record, checked one by one; every error names the field."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explearn.core.errors import DataError
from explearn.core.finite import is_score

_REQUIRED: Any = object()


def is_unicode(text: str) -> bool:
    """Whether `text` is free of lone surrogates (halves of UTF-16 pairs, stray bytes), which no file format takes."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


MOST = 10**9
"""Largest count of anything."""

_KINDS = {str: "a string", float: "a finite number", int: "a whole number", bool: "true or false"}


_LARGEST = float(np.finfo(np.float64).max)


def field(
    record: Mapping[str, Any],
    name: str,
    kind: type,
    default: Any = _REQUIRED,
    least: float = -_LARGEST,
    most: float = _LARGEST,
) -> Any:
    """A field of a record, checked; null counts as absent where there is a default.

    Texts must be valid Unicode, numbers finite, and from `least` to `most`.
    """
    value = record.get(name)
    if value is None:
        if default is _REQUIRED:
            raise DataError(f"field {name!r} is missing; expected {_KINDS[kind]}")
        return default
    kinds = (int, float) if kind is float else kind
    if not isinstance(value, kinds) or (isinstance(value, bool) and kind is not bool):
        raise DataError(f"field {name!r}: got {_shown(value)}; expected {_KINDS[kind]}")
    if isinstance(value, str) and not is_unicode(value):
        raise DataError(f"field {name!r}: got {_shown(value)}; expected valid Unicode")
    if isinstance(value, int | float) and kind in (int, float) and not least <= value <= most:
        bounds = [f"{word} {bound:g}" for word, bound in (("from", least), ("to", most)) if abs(bound) < _LARGEST]
        raise DataError(f"field {name!r}: got {_shown(value)}; expected {' '.join([_KINDS[kind], *bounds])}")
    return value


def strings(record: Mapping[str, Any], name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
    value = record.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise DataError(f"field {name!r}: got {_shown(value)}; expected a list of strings")
    if not all(map(is_unicode, value)):
        raise DataError(f"field {name!r}: got {_shown(value)}; expected valid Unicode")
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
        if not is_score(value):
            raise DataError(f"field {name!r}, {unit} {place}: got {value!r:.60}; expected a finite number (float32)")
    return np.array([math.nan if value is None else value for value in values], dtype=np.float32)


def _shown(value: object) -> str:
    return "none" if value is None else repr(value)[:60]


def spans(record: Mapping[str, Any], count: int) -> tuple[tuple[int, int], ...]:
    """Of each word [start, end) in characters; empty where the record has none."""
    values = record.get("spans")
    values = () if values is None else values
    if not isinstance(values, list | tuple) or len(values) not in (0, count):
        raise DataError(f"field 'spans': got {_shown(values)}; expected {count} pairs of whole numbers, or none")
    for place, value in enumerate(values):
        whole = isinstance(value, list | tuple) and len(value) == 2 and all(type(end) is int for end in value)
        if not whole or not 0 <= value[0] <= value[1]:
            raise DataError(f"field 'spans', word {place}: got {_shown(value)}; expected [start, end) in characters")
    return tuple((int(start), int(end)) for start, end in values)
