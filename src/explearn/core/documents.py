"""Readers of external YAML and JSON, with limits, and one-sentence errors that name file and position.

Documents that would exhaust memory or stack (deep nesting, aliases of aliases) are refused, as are YAML mappings with
repeated keys.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic_core import from_json

from explearn.core.errors import DataError, ExplearnError, ParamsError, kind_of, shown

MAX_DEPTH = 200
"""Deepest nesting of lists and objects; pydantic's JSON parser has the same limit."""

MAX_YAML_BYTES = 2**18
"""Largest YAML file: 256 KiB, which takes seconds to parse. Files of parameters, rules and prompts have a few KiB."""

MAX_YAML_VALUES = 100_000
"""Most values in a YAML document, counting values repeated by aliases each time."""


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder exists; False also for names that no file can have."""
    return os.path.isdir(path)  # noqa: PTH112 (Path.is_dir raises for such names)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_regular(path: str | os.PathLike[str], error: type[ExplearnError] = DataError) -> None:
    """Raise `error` if the path is anything but a regular file: reading a pipe or a device may never end, and writing a
    file there would replace it."""
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113
        kind = "a folder" if is_folder(path) else "a pipe or a device"
        raise error(f"{os.fspath(path)}: is {kind}; expected a regular file")


def read_bytes(path: str | os.PathLike[str], error: type[ExplearnError] = DataError, hint: str = "") -> bytes:
    """Return the content of a file. Raises `error` if it is missing or cannot be read.

    hint: added to the message if the file is missing.
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


def _decoded(text: str | bytes) -> str:
    try:
        return text if isinstance(text, str) else text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not valid UTF-8") from error


def decoded_lines(file: Iterable[bytes], name: str) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, line with its end). Raises DataError, naming the line, for bytes that are not UTF-8."""
    for number, raw in enumerate(file, start=1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{name}, line {number}: byte {error.start} is not valid UTF-8") from error
        yield number, line


def read_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    """Do as `decoded_lines` with a file. Also raises DataError if it cannot be read."""
    check_regular(path)
    try:
        with Path(path).open("rb") as file:
            yield from decoded_lines(file, str(path))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


# ---- JSON ------------------------------------------------------------------------------------------------------------


def parse_json(text: str | bytes) -> Any:
    """Return a JSON document's value. Raises ValueError if it is not JSON, holds NaN, or is nested beyond MAX_DEPTH.

    Bytes are UTF-8, with or without a byte order mark.
    """
    try:
        return from_json(_decoded(text), allow_inf_nan=False)
    except ValueError as error:
        raise ValueError(f"not valid JSON ({error})") from error


def read_json(path: str | os.PathLike[str]) -> Any:
    """Return a JSON file's value. Raises DataError naming the file when it is missing or `parse_json` refuses it."""
    raw = read_bytes(path)
    try:
        return parse_json(raw)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error


def read_jsonl(path: str | os.PathLike[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row number from 1, object) for each line that is not blank.

    Raises DataError naming file and row for a line that is not a JSON object, or that `parse_json` refuses.
    """
    for number, line in read_lines(path):
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
    """PyYAML's safe loader that refuses repeated keys and limits what merges copy."""

    merged = 0

    def flatten_mapping(self, node: Any) -> None:
        super().flatten_mapping(node)
        self.merged += len(node.value)
        if self.merged > MAX_YAML_VALUES:
            raise RecursionError

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key.value, str) and key.value in seen:
                problem = f"got the key {shown(key.value)} twice; expected each once"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep=deep)


def _measure(value: Any, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Return the number of values in a document, counting aliased values each time, and its depth."""
    if not isinstance(value, dict | list):
        return 1, 0
    if id(value) not in known:
        known[id(value)] = MAX_YAML_VALUES + 1, 0  # what a value inside itself, by an alias, counts as
        parts = [_measure(part, known) for part in (value.values() if isinstance(value, dict) else value)]
        known[id(value)] = 1 + sum(values for values, _ in parts), 1 + max((depth for _, depth in parts), default=0)
    return known[id(value)]


def parse_yaml(text: str | bytes) -> Any:
    """Return a YAML document's value.

    Raises ValueError, with line and column, if it is not YAML, repeats a key, or exceeds the limits.
    """
    if len(text) > MAX_YAML_BYTES:
        raise ValueError(f"got {len(text):,} bytes of YAML; expected at most {MAX_YAML_BYTES:,}")
    too_large = f"got more than {MAX_YAML_VALUES:,} values, or lists and mappings nested beyond {MAX_DEPTH} levels"
    try:
        value = yaml.load(_decoded(text), Loader=_Loader)
    except RecursionError:
        raise ValueError(too_large) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = " ".join((error.problem or str(error)).split())
        said = f"{place}{problem}" if problem.startswith("got ") else f"not valid YAML ({place}{problem})"
        raise ValueError(said) from error
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, OverflowError) as error:  # on dates, digits, tags
        raise ValueError(f"not valid YAML ({' '.join(str(error).split())})") from error
    values, depth = _measure(value, {})
    if values > MAX_YAML_VALUES or depth > MAX_DEPTH:
        raise ValueError(too_large)
    return value


def read_yaml(path: str | os.PathLike[str], hint: str = "") -> Any:
    """Return a YAML file's value. Raises ParamsError, naming the file, if it is missing or `parse_yaml` refuses it."""
    raw = read_bytes(path, ParamsError, hint)
    try:
        return parse_yaml(raw)
    except ValueError as error:
        raise ParamsError(f"{path}: {error}") from error
