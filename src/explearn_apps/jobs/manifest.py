"""The manifest in a large job's folder: its settings and its finished parts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from explearn.core.documents import file_digest, read_json
from explearn.core.errors import DataError, ParamsError, shown
from explearn.core.file_facts import FileFacts
from explearn.core.validation import PositiveInt, Shape, check
from explearn.core.writing import write_json

MANIFEST = "_manifest.json"
"""Readers of Parquet folders (pandas, Arrow, Spark) ignore names that begin with an underscore."""

SUCCESS = "_SUCCESS"
"""Empty file that marks a complete folder, as in Spark and Hadoop."""


class Part(FileFacts):
    """A finished part.

    Attributes:
        file: name of its file.
        first: index of its first text in the input.
        texts: number of texts.
        rows: rows of its table.
    """

    file: str
    first: int
    texts: int
    rows: int


class _UsedSettings(Shape):
    """Settings that a resumed run uses; the others are only compared."""

    threads: PositiveInt = 1
    max_tokens: PositiveInt = 1


class JobManifest(Shape):
    """Settings of a job, and its finished parts by number.

    Attributes:
        settings: everything that affects the results, as JSON values.
        texts: number of texts in the input.
    """

    format: Literal[1] = 1
    texts: int
    settings: dict[str, Any]
    parts: dict[Annotated[int, Field(strict=False)], Part] = Field(default_factory=dict)

    def write(self, folder: Path) -> None:
        parts = {str(number): part.model_dump() for number, part in sorted(self.parts.items())}
        write_json(folder / MANIFEST, {**self.model_dump(), "parts": parts})

    def check(self, folder: Path, settings: Mapping[str, Any]) -> None:
        """Check that the job has these settings.

        Raises:
            ParamsError: one differs, which is named.
        """
        if difference := _difference(self.settings, settings, tuple(settings)):
            name, before, now = difference
            verb = "differ" if name.endswith("s") else "differs"
            raise ParamsError(
                f"{folder}: holds a job whose {name} {verb} (then {shown(before)}, now {shown(now)}); use the same to "
                "resume it, or another folder"
            )


def _difference(
    before: Mapping[str, Any], now: Mapping[str, Any], names: Iterable[str]
) -> tuple[str, object, object] | None:
    """Return the first setting that differs, with its values then and now; of mappings, the entry that differs."""
    for name in names:
        old = before.get(name)
        new = now.get(name)
        if old == new:
            continue
        name = name.replace("_", " ")
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            inner = _difference(old, new, {**new, **old})
            if inner is not None:
                return f"{name}, {inner[0]}", *inner[1:]
        return name, old, new
    return None


def read_manifest(folder: Path) -> JobManifest | None:
    """Return the manifest of a folder; None if the folder does not exist or is empty.

    Raises:
        ParamsError: the folder has other content.
        DataError: the manifest is damaged.
    """
    path = folder / MANIFEST
    if not path.exists():
        if folder.exists() and not folder.is_dir():
            raise ParamsError(f"{folder}: is a file; expected a folder for the parts, or nothing")
        # Hidden files are unfinished parts.
        names = sorted(file.name for file in folder.glob("[!.]*"))
        if names:
            raise ParamsError(f"{folder}: holds {names[0]!r} and no job; expected an empty folder, or one of a job")
        return None
    hint = "; the manifest is damaged: use another folder, or remove this one"
    manifest: JobManifest = check(JobManifest, read_json(path), DataError, f"{path}, ", hint)
    check(_UsedSettings, manifest.settings, DataError, f"{path}, settings, ", hint)
    return manifest


def part_name(number: int, parts: int) -> str:
    """Return the file of a part, given the number of parts; names sort like the parts."""
    return f"part-{number:0{max(5, len(str(parts - 1)))}d}.parquet"


def folder_digest(folder: Path) -> str:
    """Return the SHA-256 over the names and contents of a folder's files."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{file_digest(path)}\n".encode())
    return digest.hexdigest()
