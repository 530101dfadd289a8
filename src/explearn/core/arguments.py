"""Arguments of public functions and methods: one of another kind than declared is refused by name, in one sentence."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from explearn.core.errors import DataError, ParamsError, kind_of

P = ParamSpec("P")
R = TypeVar("R")

_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True)
class Kind:
    """What an argument may be.

    expected: the same in words. fits: whether a value is such.
    """

    expected: str
    fits: Callable[[Any], bool]


def _is_path(value: object) -> bool:
    if not isinstance(value, str | os.PathLike):
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


PATH = Kind("a name or a path", _is_path)
TEXT = Kind("a text", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
WHOLE = Kind("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool))
MAPPING = Kind("a dict", lambda value: isinstance(value, Mapping))
FUNCTION = Kind("a function", callable)
SEVERAL = Kind(
    "a list", lambda value: isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | type)
)
TENSOR = Kind("a tensor", lambda value: hasattr(value, "softmax") and not isinstance(value, type))
ARRAY = Kind("an array", lambda value: hasattr(value, "argmax") and not isinstance(value, type))


def or_none(kind: Kind) -> Kind:
    return Kind(f"{kind.expected}, or None", lambda value: value is None or kind.fits(value))


def one_of(kind: type, expected: str) -> Kind:
    """An instance of a class."""
    return Kind(expected, lambda value: isinstance(value, kind))


def list_of(kind: type, expected: str) -> Kind:
    """A list or tuple of instances of a class."""
    return Kind(
        expected,
        lambda value: isinstance(value, list | tuple) and all(isinstance(entry, kind) for entry in value),
    )


def having(attribute: str, expected: str) -> Kind:
    """Anything with an attribute, but no class."""
    return Kind(expected, lambda value: not isinstance(value, type) and hasattr(value, attribute))


def shown(value: object) -> str:
    """A value for an error: texts and numbers as written, of anything else its kind."""
    if value is None or isinstance(value, str | bytes | int | float):
        written = repr(value) if not isinstance(value, int) or abs(value) < 10**18 else "a huge number"
        return written if len(written) <= _SHOWN_CHARS else f"{written[:_SHOWN_CHARS]}..."
    return kind_of(value)


def check_argument(name: str, value: object, kind: Kind) -> None:
    """Raise ParamsError where an argument is of another kind."""
    if not kind.fits(value):
        raise ParamsError(f"{name}: got {kind_of(value)}; expected {kind.expected}")


def check_field(name: str, value: object, kind: Kind) -> None:
    """Raise DataError where a record's field is of another kind."""
    if not kind.fits(value):
        raise DataError(f"field {name!r}: got {kind_of(value)}; expected {kind.expected}")


def arguments(**kinds: Kind) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Check the arguments named before a function runs. It then also raises ParamsError."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError:
                given = {}  # too many, too few or unknown ones: the call itself says so
            for name in kinds.keys() & given.keys():
                check_argument(name, given[name], kinds[name])
            return function(*args, **kwargs)

        return checked

    return decorate


__all__ = [
    "ARRAY",
    "FLAG",
    "FUNCTION",
    "MAPPING",
    "PATH",
    "SEVERAL",
    "TENSOR",
    "TEXT",
    "WHOLE",
    "Kind",
    "arguments",
    "check_argument",
    "check_field",
    "having",
    "list_of",
    "one_of",
    "or_none",
    "shown",
]
