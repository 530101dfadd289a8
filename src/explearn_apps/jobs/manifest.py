"""What a large job is, and which of its parts are done: the manifest in its folder."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from explearn.core.documents import read_json
from explearn.core.errors import DataError, ParamsError
from explearn.core.validation import MOST
from explearn.core.writing import write_json

MANIFEST = "_manifest.json"
"""Readers of folders of Parquet (pandas, Arrow, Spark) pass over names that begin with an underscore."""

SUCCESS = "_SUCCESS"
"""Empty file that says that all parts are there, as Spark and Hadoop write it."""

FORMAT = 1
"""Of the manifest and the parts; another one is refused."""

MOST_THREADS = 4096
"""Of a machine; torch ends the process where it cannot start as many as it is asked for."""

_SHOWN_CHARS = 40


@dataclass(frozen=True, slots=True)
class Part:
    """A finished part.

    Attributes:
        first: number of its first text in the input, from 0. texts: how many it has. rows: of its table.
        bytes, sha256: of its file.
    """

    file: str
    first: int
    texts: int
    rows: int
    bytes: int
    sha256: str


@dataclass(slots=True)
class Manifest:
    """Settings of a job, and its finished parts by number.

    Attributes:
        settings: everything that the results depend on, JSON values.
        texts: number of texts of the input.
    """

    settings: dict[str, Any]
    texts: int
    parts: dict[int, Part] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        write_json(
            folder / MANIFEST,
            {
                "format": FORMAT,
                "texts": self.texts,
                "settings": self.settings,
                "parts": {str(number): asdict(part) for number, part in sorted(self.parts.items())},
            },
        )

    def check(self, folder: Path, settings: Mapping[str, Any]) -> None:
        """Raise ParamsError, naming the first that differs, unless the job has these settings."""
        for name, value in settings.items():
            then = self.settings.get(name)
            if then != value:
                what, before, now = _difference(name.replace("_", " "), then, value)
                raise ParamsError(
                    f"{folder}: holds a job whose {what} differ{'' if what.endswith('s') else 's'} (then "
                    f"{_shown(before)}, now {_shown(now)}); give the same to go on with it, or another folder"
                )


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder; None where there is no folder yet, or an empty one.

    Raises ParamsError for a folder with other things in it, DataError for a manifest that is of no use.
    """
    path = folder / MANIFEST
    if not path.exists():
        if folder.exists() and not folder.is_dir():
            raise ParamsError(f"{folder}: is a file; expected a folder for the parts, or nothing")
        # A hidden file is one that was not finished.
        there = sorted(p.name for p in folder.iterdir() if not p.name.startswith(".")) if folder.exists() else []
        if there:
            raise ParamsError(f"{folder}: holds {there[0]!r} and no job; expected an empty folder, or one of a job")
        return None
    found = read_json(path)
    try:
        if found["format"] != FORMAT:
            raise DataError(f"{path}: has format {found['format']!r}; expected {FORMAT}, or another folder")
        settings = found["settings"]
        _count(found["texts"], MOST)
        _count(settings["threads"], MOST_THREADS)
        _count(settings["max_tokens"], MOST)
        parts = {int(number): _part(part) for number, part in found["parts"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path}: damaged; give another folder, or remove this one") from error
    return Manifest(settings, found["texts"], parts)


def _count(value: object, most: int, least: int = 1) -> None:
    if type(value) is not int or not least <= value <= most:
        raise TypeError


def _part(fields: Mapping[str, Any]) -> Part:
    part = Part(**fields)
    if not (isinstance(part.file, str) and isinstance(part.sha256, str)):
        raise TypeError
    for value in (part.first, part.texts, part.rows, part.bytes):
        _count(value, sys.maxsize, least=0)
    return part


def part_name(number: int, parts: int) -> str:
    """File of a part, of so many; names sort as the parts do."""
    return f"part-{number:0{max(5, len(str(parts - 1)))}d}.parquet"


def is_whole(folder: Path, part: Part) -> bool:
    """Whether a part's file is as it was written."""
    path = folder / part.file
    if not path.is_file() or path.stat().st_size != part.bytes:
        return False
    return file_digest(path) == part.sha256


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of a folder's files."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{file_digest(path)}\n".encode())
    return digest.hexdigest()


def _difference(name: str, then: object, now: object) -> tuple[str, object, object]:
    """Where two values differ first, named by its keys, and what stands there."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        key = next(key for key in {**now, **then} if then.get(key) != now.get(key))
        return _difference(f"{name}, {key}", then.get(key), now.get(key))
    return name, then, now


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
