"""YAML and JSON from outside: one loader with one set of bounds, and errors of one sentence with file and place.

A document that would take the memory or the stack (nested lists, aliases of aliases, numbers of thousands of digits)
is refused, and so is one that programs read differently: a key that comes twice, NaN.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from explearn.core.errors import DataError, ExplearnError, ParamsError
from explearn.core.partials import odd_kind

MAX_DEPTH = 100
"""Most lists and objects inside one another."""

MAX_DIGITS = 100
"""Most digits of a whole number."""

MAX_YAML_BYTES = 2**22
"""Largest YAML file: 4 MiB. Files of parameters, rules and prompts have a few kilobytes."""

MAX_YAML_VALUES = 100_000
"""Most values of a YAML document, those that aliases repeat counted each time."""

_LARGEST = 10**MAX_DIGITS
_MANY_DIGITS = re.compile(f"[0-9]{{{MAX_DIGITS + 1}}}")
_SHOWN_CHARS = 60


class _BoundError(ValueError):
    """A document beyond the bounds, or one that programs read differently."""


_NESTED = f"got lists or objects inside one another beyond {MAX_DEPTH} levels; expected a few levels"
_DIGITS = f"got a whole number too long to be read; expected at most {MAX_DIGITS} digits"


def kind_of(value: object) -> str:
    """What a value is, for an error: the name of its type, and of none that it is nothing."""
    return "nothing" if value is None else type(value).__name__


def name_of(value: object, what: str) -> str:
    """The name of a file or folder, or one on the hub; raises ParamsError for what is neither text nor path."""
    if not isinstance(value, str | os.PathLike):
        raise ParamsError(f"{what}: got {kind_of(value)}; expected a name or a path")
    return os.fsdecode(value)


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether there is such a folder; False, too, for a name that no file can have."""
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False


def check_regular(path: str | os.PathLike[str], error: type[ExplearnError] = DataError) -> None:
    """Raise `error` for a folder, a pipe, a socket or a device: reading a pipe or a device may never end."""
    kind = odd_kind(path)
    if kind is not None:
        raise error(f"{path}: is {kind}; expected a regular file")


def check_folder(folder: str | os.PathLike[str], error: type[ExplearnError] = DataError) -> None:
    """Raise `error` where something in a folder is neither regular file nor folder: libraries would wait for it."""
    for path in sorted(Path(folder).iterdir()) if is_folder(folder) else ():
        if not path.is_dir():
            check_regular(path, error)


def read_bytes(path: str | os.PathLike[str], error: type[ExplearnError] = DataError, hint: str = "") -> bytes:
    """The content of a regular file. Raises `error` for one that is missing, no regular file, or cannot be read.

    `hint` follows where it is missing.
    """
    try:
        check_regular(path, error)
        return Path(path).read_bytes()
    except FileNotFoundError as problem:
        raise error(f"{path}: no such file{hint}") from problem
    except OSError as problem:
        raise error(f"{path}: cannot be read ({problem.strerror})") from problem
    except ValueError as problem:  # a NUL in the name
        raise error(f"{os.fspath(path)!r}: cannot be read ({problem})") from problem


# ---- JSON ------------------------------------------------------------------------------------------------------------


def parse_json(text: str | bytes) -> Any:
    """A JSON document's value. Raises ValueError, saying what was expected, where it is none or is beyond the bounds.

    Bytes are UTF-8, with or without a byte order mark.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"not valid JSON (byte {error.start} is not valid UTF-8)") from error
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_float=_finite, parse_constant=_constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise ValueError(f"not valid JSON ({error.msg} at {place})") from error
    except _BoundError:
        raise
    except RecursionError:
        raise _BoundError(_NESTED) from None
    except ValueError:
        raise _BoundError(_DIGITS) from None
    # A walk through the values costs more than reading them; few documents have what would fail it.
    if text.count("[") + text.count("{") > MAX_DEPTH or _MANY_DIGITS.search(text):
        _check_bounds(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _BoundError(f"got the key {_shown(twice)} twice in one object; expected each once")
    return found


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _BoundError(f"got the number {_shown(digits)}; expected one that a computer can hold")
    return value


def _constant(name: str) -> float:
    raise _BoundError(f"not valid JSON (got {name}; expected a number, or null)")


def _check_bounds(value: Any) -> None:
    open_values = [(value, 1)]
    while open_values:
        found, depth = open_values.pop()
        if isinstance(found, (list, dict)):
            if depth > MAX_DEPTH:
                raise _BoundError(_NESTED)
            inside = found.values() if isinstance(found, dict) else found
            open_values += [(item, depth + 1) for item in inside if isinstance(item, (list, dict, int))]
        elif isinstance(found, int) and abs(found) >= _LARGEST:
            raise _BoundError(_DIGITS)


def _shown(text: str) -> str:
    written = repr(text)
    return written if len(written) <= _SHOWN_CHARS else f"{written[:_SHOWN_CHARS]}..."


def read_json(path: str | os.PathLike[str]) -> Any:
    """Raises DataError when the file is missing, no regular file, not UTF-8, not JSON, or beyond the bounds."""
    raw = read_bytes(path)
    try:
        return parse_json(raw)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error


def read_jsonl(path: str | os.PathLike[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row number from 1, object) for each line that is not blank.

    Raises DataError naming file and row for invalid UTF-8, invalid JSON, JSON beyond the bounds, and a line that is no
    JSON object.
    """
    try:
        check_regular(path)
        handle = Path(path).open("rb")  # noqa: SIM115 (closed below; only opening may fail here)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    with handle:
        for number, raw in enumerate(handle, start=1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path}, row {number}: byte {error.start} is not valid UTF-8; expected UTF-8 JSON Lines"
                ) from error
            if not line.strip():
                continue
            try:
                value = parse_json(line)
            except ValueError as error:
                raise DataError(f"{path}, row {number}: {error}") from error
            if not isinstance(value, dict):
                raise DataError(f"{path}, row {number}: got {kind_of(value)}; expected a JSON object")
            yield number, value


# ---- YAML ------------------------------------------------------------------------------------------------------------


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the bounds. What it cannot make of a value is an error with line and column."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._sizes: dict[int, tuple[int, int]] = {}  # id(node) -> (values, depth), aliases counted each time

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _problem(_NESTED, self.peek_event())  # type: ignore[no-untyped-call]
        repeated = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is not None and not repeated:
            self._sizes[id(node)] = self._measured(node)
        return node

    def _measured(self, node: yaml.Node) -> tuple[int, int]:
        inside: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            inside = [part for pair in node.value for part in pair]
            keys = [(key.tag, key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            if len(set(keys)) != len(keys):
                twice = next(key[1] for key in keys if keys.count(key) > 1)
                raise _problem(f"got the key {_shown(twice)} twice; expected each once", node)
        elif isinstance(node, yaml.SequenceNode):
            inside = node.value
        sizes = [self._sizes.get(id(part)) for part in inside]
        if None in sizes:
            raise _problem("got a value that is inside itself; expected none", node)
        values = 1 + sum(size[0] for size in sizes if size)
        depth = 1 + max((size[1] for size in sizes if size), default=0)
        if values > MAX_YAML_VALUES:
            raise _problem(f"got more than {MAX_YAML_VALUES:,} values; expected fewer", node)
        if depth > MAX_DEPTH:
            raise _problem(_NESTED, node)
        return values, depth

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep=deep)
        except (ValueError, KeyError, AttributeError, TypeError, ArithmeticError) as error:
            written = node.value if isinstance(node, yaml.ScalarNode) else ""
            kind = str(node.tag).rpartition(":")[2]
            if kind == "int" and len(written) > MAX_DIGITS:
                raise _problem(_DIGITS, node) from error
            raise _problem(f"got {_shown(written)}; expected {_KINDS.get(kind, f'a {kind}')}", node) from error
        if isinstance(value, int) and abs(value) >= _LARGEST:
            raise _problem(_DIGITS, node)
        return value


_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "timestamp": "a date that exists"}


def _problem(what: str, place: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=what, problem_mark=place.start_mark)


def parse_yaml(text: str | bytes) -> Any:
    """A YAML document's value. Raises ValueError, with line and column, where it is none or is beyond the bounds."""
    if len(text) > MAX_YAML_BYTES:
        raise _BoundError(f"got {len(text):,} bytes of YAML; expected at most {MAX_YAML_BYTES:,}")
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"not valid YAML (byte {error.start} is not valid UTF-8)") from error
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        said = " ".join((error.problem or str(error)).split())
        raise ValueError(f"{place}{said}" if said.startswith("got ") else f"not valid YAML ({place}{said})") from error
    except yaml.YAMLError as error:
        raise ValueError(f"not valid YAML ({' '.join(str(error).split())})") from error
    except RecursionError:
        raise _BoundError(_NESTED) from None


def read_yaml(path: str | os.PathLike[str], error: type[ExplearnError] = ParamsError, hint: str = "") -> Any:
    """Raises `error` naming file and place when the file is missing, not UTF-8, not YAML, or beyond the bounds."""
    raw = read_bytes(path, error, hint)
    try:
        return parse_yaml(raw)
    except ValueError as problem:
        said = str(problem)
        raise error(f"{path}{', ' if said.startswith('line ') else ': '}{said}") from problem


__all__ = [
    "MAX_DEPTH",
    "MAX_DIGITS",
    "MAX_YAML_BYTES",
    "MAX_YAML_VALUES",
    "is_folder",
    "kind_of",
    "parse_json",
    "parse_yaml",
    "read_bytes",
    "read_json",
    "read_jsonl",
    "read_yaml",
]
