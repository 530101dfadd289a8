"""Writing files and folders so that nothing half-written, and nothing of two writers, ever stands under a name.

A file or folder is written beside its place, as `.NAME.partial-*`, and put there by one rename once it is whole and on
disk. Meanwhile its writer holds a lock on the name (`explearn.core.locks`). No reader looks at partial files.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from explearn.core.documents import kind_of
from explearn.core.errors import DataError, ParamsError
from explearn.core.locks import locked
from explearn.core.partials import (
    check_output,
    fresh_path,
    odd_kind,
    partial_path,
    remove,
    shown,
    told,
    vanished,
)

_READ_AND_WRITE = 0o666
"""Permissions that a file may have, before the umask."""

_RENAME_EXCHANGE = 2
"""Of renameat2(2): swap two names in one step."""
_AT_FDCWD = -100
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EXDEV)
"""What says that the kernel or the file system does not swap names."""


def _sync(path: Path) -> None:
    """Have a file's content, or a folder's list of names, on disk."""
    if path.is_dir() and not hasattr(os, "O_DIRECTORY"):
        return  # Windows does not sync folders
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_tree(folder: Path) -> None:
    """Have a folder's content on disk, with the permissions that the umask gave to the folder."""
    mode = folder.stat().st_mode & _READ_AND_WRITE
    for path, _, names in os.walk(folder, topdown=False):
        for name in names:
            if not (Path(path) / name).is_symlink():
                (Path(path) / name).chmod(mode)
                _sync(Path(path) / name)
        _sync(Path(path))


# ---- files -------------------------------------------------------------------------------------------------------


@contextmanager
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path to write a file to; it takes the place of `target` when the block ends without an exception.

    Raises ParamsError where `target` is something other than a regular file, DataError where it cannot be written or
    another writer does not end in time (`locked`).
    """
    target = Path(target)
    check_output(target)
    with locked(target), told(target):
        partial = fresh_path(target)
        # Made here, not by tempfile, so that the umask says who may read it.
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        mode = partial.stat().st_mode
        try:
            yield partial
            if not partial.is_file():
                raise vanished(partial)
            # A library may have put a file of its own there, readable by its owner alone.
            partial.chmod(mode & _READ_AND_WRITE)
            _sync(partial)
            check_output(target)
            partial.replace(target)
            _sync(target.parent)
        finally:
            partial.unlink(missing_ok=True)


def check_place(target: str | os.PathLike[str]) -> None:
    """Raise what `atomic_path` would raise where no file can be written to `target`; no file is written.

    For what takes minutes until it writes its result.
    """
    if not isinstance(target, str | os.PathLike):
        raise ParamsError(f"got {kind_of(target)} as the name of a file; expected a text or a path")
    check_output(target)
    with locked(target), told(Path(target)), suppress(FileNotFoundError):
        # A name may be too long for the disk, though those of the partial files are not.
        os.lstat(target)


def put_files(folder: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Move every file of a folder to the same place below another, each in the place of what is there.

    All were written and synced before; only renames are left, so both folders have to be on one disk.
    Raises ParamsError where one would take the place of anything but a regular file, before the first is moved.
    """
    folder, target = Path(folder), Path(target)
    moves = {path: target / path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()}
    for new in moves.values():
        check_output(new)
    for path, new in moves.items():
        with locked(new), told(new):
            path.replace(new)
    for parent in {new.parent for new in moves.values()}:
        _sync(parent)


def write_text(target: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8, whole or not at all."""
    with atomic_path(target) as partial:
        partial.write_text(text, encoding="utf-8")


def json_text(value: object, *, indent: int | None = None, ascii_only: bool = False, sort_keys: bool = False) -> str:
    """JSON, keys in the order given or sorted.

    Raises DataError, naming the place, for NaN and infinities: readers disagree on them.
    """
    try:
        return json.dumps(value, indent=indent, ensure_ascii=ascii_only, sort_keys=sort_keys, allow_nan=False)
    except ValueError as error:
        place = _not_finite(value, "")
        if place is None:
            raise
        where, number = place
        raise DataError(f"{where or 'value'}: got {number}; expected a finite number") from error


def _not_finite(value: object, where: str) -> tuple[str, float] | None:
    """Path and value of the first number in a document that is not finite."""
    if isinstance(value, float):
        return None if math.isfinite(value) else (where, value)
    parts: list[tuple[object, object]] = []
    if isinstance(value, Mapping):
        parts = list(value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str):
        parts = list(enumerate(value))
    found = (_not_finite(part, f"{where}.{key}" if where else str(key)) for key, part in parts)
    return next((place for place in found if place is not None), None)


def write_json(target: str | os.PathLike[str], value: object) -> None:
    """Write JSON as `json_text` gives it; raises DataError naming file and place for a number that is not finite."""
    try:
        text = json_text(value, indent=2)
    except DataError as error:
        raise DataError(f"{shown(Path(target))}, {error}") from error
    write_text(target, text + "\n")


# ---- folders -----------------------------------------------------------------------------------------------------


@contextmanager
def atomic_folder(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a folder to fill; it takes the place of `target` when the block ends without an exception.

    An earlier folder is swapped with the new one in a single step where the system can (renameat2 of Linux). Elsewhere
    it is moved aside for that moment: should the process die in it, the next writer puts it back first.

    Raises DataError where the folder cannot be written, another writer does not end in time (`locked`), or the folder
    to fill was removed meanwhile: it is never made anew, for then it would hold a part.
    """
    target = Path(target)
    _check_folder(target)
    with locked(target), told(target):
        partial = fresh_path(target)
        partial.mkdir()
        try:
            with _watched(partial):
                yield partial
            _put(partial, target)
        finally:
            remove(partial)


def check_replaceable(folder: str | os.PathLike[str], is_such: Callable[[Path], bool], what: str) -> None:
    """Raise ParamsError for a folder that holds something else than what is to take its place: all of it would be lost.

    Hidden files do not count.

    Args:
        is_such: whether a folder with something in it holds `what`, and may be replaced.
    """
    folder = Path(folder)
    there = sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) if folder.is_dir() else []
    if there and not is_such(folder):
        raise ParamsError(
            f"{shown(folder)}: holds {there[0]!r} and no {what}; expected a new or an empty folder, or one with such"
        )


@contextmanager
def resumable_folder(target: str | os.PathLike[str]) -> Iterator[Path]:
    """As `atomic_folder`, but what was filled in stays there when the block ends with an exception or the process
    dies, and the next call goes on with it."""
    target = Path(target)
    _check_folder(target)
    with locked(target), told(target):
        partial = partial_path(target, "unfinished")
        partial.mkdir(exist_ok=True)
        with _watched(partial):
            yield partial
        _put(partial, target)
        remove(partial)


@contextmanager
def scratch_folder(beside: str | os.PathLike[str]) -> Iterator[Path]:
    """Give an empty folder on the same disk as `beside`, removed at the end; what a killed process left of an earlier
    one is removed by the next."""
    beside = Path(beside)
    with locked(beside), told(beside):
        partial = fresh_path(beside)
        partial.mkdir()
        try:
            yield partial
        finally:
            remove(partial)


@contextmanager
def _watched(partial: Path) -> Iterator[None]:
    """Raise DataError at the end where the folder is no longer the one that it was at the start."""
    made = partial.stat()
    # While it is open no other folder can have its number.
    handle = os.open(partial, os.O_RDONLY) if hasattr(os, "O_DIRECTORY") else None
    try:
        yield
        found = partial.stat() if partial.is_dir() else None
        if found is None or (found.st_dev, found.st_ino) != (made.st_dev, made.st_ino):
            raise vanished(partial)
    finally:
        if handle is not None:
            os.close(handle)


def _check_folder(target: Path) -> None:
    if os.path.lexists(target) and not target.is_dir():
        raise ParamsError(f"{shown(target)}: is {odd_kind(target) or 'a file'}; expected a folder, or nothing")


def _put(partial: Path, target: Path) -> None:
    """Put a whole folder in the place of what is there; that is at `partial` then, or gone."""
    _check_folder(target)
    _sync_tree(partial)
    if not os.path.lexists(target):
        partial.replace(target)
    elif not _exchanged(partial, target):
        before = partial_path(target, "before")
        target.replace(before)
        try:
            partial.replace(target)
        except BaseException:
            before.replace(target)
            raise
        _sync(target.parent)
        remove(before)
    _sync(target.parent)


def _exchanged(one: Path, other: Path) -> bool:
    """Swap two names in one step; False where the system does not."""
    renameat2 = _renameat2()
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NO_EXCHANGE:
        return False
    raise OSError(code, os.strerror(code), str(other))


@functools.cache
def _renameat2() -> Any:
    try:
        function: Any = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # not Linux, or a C library without it
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return function
