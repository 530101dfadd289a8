"""Writing files and folders that are whole or not there.

A file or folder is written beside its place and then renamed. A process killed half-way leaves a `.NAME.partial-*`
file, which no reader looks at and the next write sweeps away.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def _partials(target: Path) -> str:
    return f".{target.name}.partial-"


def _sweep(target: Path) -> None:
    for leftover in target.parent.glob(_partials(target).replace("[", "[[]") + "*"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


@contextmanager
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path to write a file to; it takes the place of `target` when the block ends without an exception."""
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target)
    handle, name = tempfile.mkstemp(prefix=_partials(target), suffix=target.suffix, dir=target.parent)
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.chmod(0o644)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def atomic_folder(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a folder to fill; it takes the place of `target` when the block ends without an exception.

    A folder cannot be replaced in one step: the earlier one is moved aside, the new one put in place, the earlier one
    removed. A process killed between the first two leaves nothing under the name, never a half.
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target)
    partial = Path(tempfile.mkdtemp(prefix=_partials(target), dir=target.parent))
    partial.chmod(0o755)
    try:
        yield partial
        if target.exists():
            old = Path(tempfile.mkdtemp(prefix=_partials(target), dir=target.parent))
            target.replace(old / "old")
            partial.replace(target)
            shutil.rmtree(old, ignore_errors=True)
        else:
            partial.replace(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_text(target: str | os.PathLike[str], text: str) -> None:
    with atomic_path(target) as partial:
        partial.write_text(text, encoding="utf-8")
