"""Readers of JSON and YAML documents, with one-sentence errors that name file and position."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic_core import from_json

from explearn.core.errors import DataError, ExplearnError, ParamsError, kind_of, shown

PathLike = str | os.PathLike[str]


def checked_path(path: object, what: str, error: type[ExplearnError] = ParamsError) -> str:
    """Return a path as text, unchanged.

    Args:
        path: the path.
        what: name of the parameter.
        error: error to raise for anything else, or for a path that no file can have.
    """
    if isinstance(path, str | os.PathLike):
        text = os.fspath(path)
        if isinstance(text, str) and "\0" not in text:
            return text
        path = text
    raise error(f"{what}: got {shown(path)}; expected a path, as text or a pathlib.Path, without NUL")


def is_folder(path: PathLike) -> bool:
    """Return whether a folder exists; False also for names that no file can have."""
    return os.path.isdir(path)  # noqa: PTH112 (Path.is_dir raises for such names)


def names_code(name: PathLike) -> bool:
    """Return whether a classifier's name is that of an object in Python code, `module:name` or `file.py:name`."""
    return re.fullmatch(r"(.+\.py|\w+(\.\w+)*):[^\W\d]\w*(\.\w+)*", os.fspath(name)) is not None


def public_name(name: str) -> str:
    """Return a hub's name, or the last part of a local path: the rest is private."""
    if is_folder(name):
        return Path(name).resolve().name
    if names_code(name):
        return Path(name).name
    return name


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def check_regular(path: PathLike, error: type[ExplearnError] = DataError) -> None:
    """Raise `error` if something other than a regular file is there.

    Reading a pipe or a device may never end, and writing a file there would replace it.
    """
    checked_path(path, "path", error)
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113
        kind = "a pipe or a device"
        if is_folder(path):
            kind = "a folder"
        raise error(f"{os.fspath(path)}: is {kind}; expected a regular file")


def read_bytes(path: PathLike, error: type[ExplearnError] = DataError, hint: str = "") -> bytes:
    """Return the content of a file.

    Args:
        path: the file.
        error: error to raise if it is missing or cannot be read.
        hint: text to add to the message if it is missing.
    """
    check_regular(path, error)
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as problem:
        raise error(f"{path}: no such file{hint}") from problem
    except OSError as problem:
        raise error(f"{path}: cannot be read ({problem.strerror})") from problem


def decoded_lines(file: Iterable[bytes], name: str) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, line with its end).

    Args:
        file: the lines, in UTF-8 with or without a byte order mark.
        name: name of the file, for messages.

    Raises:
        DataError: bytes that are not UTF-8; the message names the line.
    """
    encoding = "utf-8-sig"
    for number, line in enumerate(file, start=1):
        try:
            yield number, line.decode(encoding)
        except UnicodeDecodeError as error:
            raise DataError(f"{name}, line {number}: byte {error.start} is not valid UTF-8") from error
        encoding = "utf-8"


def read_lines(path: PathLike) -> Iterator[tuple[int, str]]:
    """Yield a file's lines as `decoded_lines` does.

    Raises:
        DataError: as `decoded_lines`, and for a file that cannot be read.
    """
    check_regular(path)
    try:
        with Path(path).open("rb") as file:
            yield from decoded_lines(file, str(path))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


# ---- JSON ------------------------------------------------------------------------------------------------------------


def parse_json(text: str | bytes) -> Any:
    """Return a JSON document's value.

    Args:
        text: the document; bytes are UTF-8, with or without a byte order mark.

    Raises:
        ValueError: it is not JSON, holds NaN, repeats a key, or is nested beyond 200 levels (pydantic's limit).
    """
    try:
        decoded = _decoded(text)
        value = from_json(decoded, allow_inf_nan=False)
        if "{" in decoded:
            json.loads(decoded, object_pairs_hook=_check_keys)  # pydantic takes the last of equal keys
    except ValueError as error:
        raise ValueError(f"not valid JSON ({error})") from error
    return value


def _check_keys(pairs: Sequence[tuple[str, object]]) -> None:
    keys = Counter(key for key, _ in pairs)
    for key, count in keys.items():
        if count > 1:
            raise ValueError(f"got the key {shown(key)} {count} times; expected each once")


def _decoded(text: str | bytes) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not valid UTF-8") from error


def read_json(path: PathLike) -> Any:
    """Return a JSON file's value.

    Raises:
        DataError: the file is missing, or `parse_json` refuses it.
    """
    raw = read_bytes(path)
    try:
        return parse_json(raw)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error


def read_jsonl(path: PathLike) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row number from 1, object) for each line that is not blank.

    Raises:
        DataError: a line that is not a JSON object, or that `parse_json` refuses; the message names file and row.
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
    """PyYAML's safe loader that refuses repeated keys."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key.value, str) and key.value in seen:
                problem = f"got the key {shown(key.value)} twice; expected each once"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep=deep)


def parse_yaml(text: str | bytes) -> Any:
    """Return a YAML document's value.

    Raises:
        ValueError: it is not YAML, or repeats a key; the message names line and column.
    """
    try:
        return yaml.load(_decoded(text), Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        where = ""
        if mark := error.problem_mark:
            where = f"line {mark.line + 1}, column {mark.column + 1}: "
        raise ValueError(f"not valid YAML ({where}{error.problem})") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that no calendar has
        raise ValueError(f"not valid YAML ({' '.join(str(error).split())})") from error
    except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:  # PyYAML's own slips
        problem = "a value that its tag does not allow, too large a number, or too deep a nesting"
        raise ValueError(f"not valid YAML ({problem})") from error


def read_yaml(path: PathLike, hint: str = "") -> Any:
    """Return a YAML file's value.

    Args:
        path: the file.
        hint: text to add to the message if it is missing.

    Raises:
        ParamsError: the file is missing, or `parse_yaml` refuses it.
    """
    raw = read_bytes(path, ParamsError, hint)
    try:
        return parse_yaml(raw)
    except ValueError as error:
        raise ParamsError(f"{path}: {error}") from error
