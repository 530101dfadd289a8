"""Atomic writing of files and folders: no path ever holds a half-written result, or a mix of two writers' results.

A file or folder is written next to its target, as `.NAME.partial-*`, and renamed once it is complete and on disk.
Meanwhile its writer holds the lock `.NAME.partial-lock`, and other writers wait; so partial files that a writer finds
were left by a dead one, and can be removed. No reader looks at partial files.
"""

from __future__ import annotations

import errno
import glob
import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

import filelock

from explearn.core.documents import PathLike, check_regular, checked_path
from explearn.core.errors import DataError, ExplearnError, ParamsError, first_line

POLL_SECONDS = 0.1

_READ_AND_WRITE = 0o666
"""Permissions of a new file, before the umask."""

_FAILED_WRITES = ("rror while serializing", "PytorchStreamWriter failed", "inline_container.cc")
"""Parts of safetensors' and torch's messages about a full disk."""

_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_PARTIAL_NAME = re.compile(r"^\.(.+)\.partial-[0-9a-z]+(\.[^.]*)?$")


def check_output(target: PathLike) -> None:
    """Raise ParamsError if a file written to `target` would replace anything but a regular file."""
    check_regular(target, ParamsError)


def check_own(target: PathLike, is_such: Callable[[Path], bool], what: str) -> None:
    """Raise ParamsError if a file of another kind would be overwritten and lost; an empty file may be overwritten.

    Args:
        target: the file that will be written.
        is_such: whether a non-empty file is of our kind.
        what: name of our kind, for messages.

    Raises:
        DataError: as `check_place`.
    """
    check_place(target)
    target = Path(target)
    if target.exists() and target.stat().st_size and not is_such(target):
        raise ParamsError(f"{target}: exists and is not {what}; expected a new name")


PAGE_MARK = '<meta name="generator" content="explearn">'
"""Mark of our pages, near their beginning."""


def is_page(path: Path) -> bool:
    """Return whether a file is one of our HTML pages."""
    with path.open("rb") as file:
        return PAGE_MARK.encode() in file.read(512)


# ---- locks -----------------------------------------------------------------------------------------------------------


@contextmanager
def locked(target: PathLike, what: str | None = None) -> Iterator[None]:
    """Lock `target` against writers in other processes and threads; the holder can lock it again.

    Waits for another writer, with a line on standard error. Removes what a dead writer left.

    Args:
        target: a file or folder.
        what: name of the target in that line. None: its path.
    """
    target = Path(target)
    with _write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        resolved = Path(os.path.realpath(target.parent)) / target.name
        lock = filelock.FileLock(_partial(resolved, "lock"), is_singleton=True)
        first = not lock.is_locked
        # filelock retries forever if the lock file cannot be created.
        os.close(os.open(lock.lock_file, os.O_RDWR | os.O_CREAT, _READ_AND_WRITE))
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            name = what or _final(target)
            print(f"{name}: another run is writing it; waiting until it has finished", file=sys.stderr, flush=True)
            lock.acquire(poll_interval=POLL_SECONDS)
        if first:
            _sweep(target)
    try:
        yield
    finally:
        if first:
            # Unlinked while held: a waiting process notices that its open file has no name, and opens it again.
            Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


# ---- partial files ---------------------------------------------------------------------------------------------------


def _partial(target: Path, end: str) -> Path:
    if not target.name:
        raise ParamsError(f"got {str(target)!r} to write to; expected the name of a file or a folder")
    return target.with_name(f".{target.name}.partial-{end}")


def _fresh(target: Path) -> Path:
    return _partial(target, secrets.token_hex(4) + target.suffix)


def _final(path: Path) -> Path:
    """Return the final path of a file: a path inside a partial folder, under the name that the folder will have."""
    return Path(*(_PARTIAL_NAME.sub(r"\1", part) for part in path.parts))


def _sweep(target: Path) -> None:
    """Restore an earlier folder that a dead writer had moved aside, and remove everything else it left."""
    before = _partial(target, "before")
    if os.path.lexists(before) and not os.path.lexists(target):
        before.replace(target)
    keep = {_partial(target, end).name for end in ("lock", "unfinished")}
    for leftover in target.parent.glob(f".{glob.escape(target.name)}.partial-*"):
        if leftover.name not in keep:
            _remove(leftover)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        path.unlink()


@contextmanager
def _write_errors(target: Path) -> Iterator[None]:
    """Turn disk errors while writing `target` into a DataError; errors about other files pass."""
    try:
        yield
    except Exception as error:
        reason = _disk_error(error, target)
        if reason is None:
            raise
        raise DataError(f"{_final(target)}: cannot be written ({reason}); what was there is unchanged") from error


def _disk_error(error: Exception, target: Path) -> str | None:
    """Return why the disk does not take a file; None for an error about anything else."""
    if isinstance(error, OSError) and error.errno:
        name = str(error.filename or "")
        ours = f".{target.name}.partial-" in name or name in (str(target), str(target.parent))
        if ours or error.errno in _DISK_IS_FULL:
            return os.strerror(error.errno)
        return None
    if not isinstance(error, ExplearnError) and any(words in str(error) for words in _FAILED_WRITES):
        return first_line(error)
    return None


def _sync(path: Path) -> None:
    """Flush a file's content, or a folder's list of names, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ---- files -----------------------------------------------------------------------------------------------------------


@contextmanager
def atomic_path(target: PathLike) -> Iterator[Path]:
    """Yield a path to write a file to; it replaces `target` when the block ends without an exception.

    Raises:
        ParamsError: `target` is not a regular file.
        DataError: it cannot be written.
    """
    target = Path(target)
    check_output(target)
    with locked(target), _write_errors(target):
        partial = _fresh(target)
        # Created here, not by tempfile, so that the umask sets its permissions.
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _READ_AND_WRITE))
        mode = partial.stat().st_mode
        try:
            yield partial
            # A library may have replaced it by a file that only its owner can read.
            partial.chmod(mode & _READ_AND_WRITE)
            _sync(partial)
            partial.replace(target)
            _sync(target.parent)
        finally:
            partial.unlink(missing_ok=True)


def check_place(target: PathLike) -> None:
    """Raise what `atomic_path` would raise if `target` cannot be written, without writing a file.

    For computations that take minutes before they write their result.
    """
    check_output(target)
    with locked(target):
        pass


def put_files(folder: PathLike, target: PathLike) -> None:
    """Move every file of a folder to the same relative path below another, replacing existing files.

    All files are already on the same disk; only renames remain.

    Raises:
        ParamsError: one would replace anything but a regular file. Nothing has been moved then.
    """
    moves = []
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file():
            new = Path(target) / path.relative_to(folder)
            check_output(new)
            moves.append((path, new))
    for path, new in moves:
        with locked(new), _write_errors(new):
            path.replace(new)


def write_text(target: PathLike, text: str) -> None:
    """Write UTF-8, whole or not at all."""
    with atomic_path(target) as partial:
        # Only names of files may hold invalid Unicode.
        partial.write_text(text, encoding="utf-8", errors="replace")


def write_json(target: PathLike, value: object) -> None:
    """Write JSON, whole or not at all.

    Raises:
        ValueError: the value holds NaN or an infinity, which readers treat differently.
    """
    write_text(target, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


# ---- folders ---------------------------------------------------------------------------------------------------------


@contextmanager
def atomic_folder(target: PathLike, resume: bool = False) -> Iterator[Path]:
    """Yield a folder to fill; it replaces `target` when the block ends without an exception.

    An earlier folder is moved aside during the rename: if the process dies then, the next writer restores it first.

    Args:
        target: the folder.
        resume: keep the partial folder if the block raises or the process dies; the next call resumes with it.

    Raises:
        ParamsError: `target` is not a folder.
        DataError: it cannot be written, or the folder to fill was removed meanwhile (a recreated one would hold only a
            part).
    """
    target = Path(checked_path(target, "folder"))
    if os.path.lexists(target) and not target.is_dir():
        raise ParamsError(f"{_final(target)}: is not a folder; expected a folder, or nothing")
    partial = _partial(target, "unfinished") if resume else _fresh(target)
    try:
        with locked(target), _write_errors(target):
            partial.mkdir(exist_ok=True)
            created = partial.stat()
            yield partial
            if not os.path.samestat(created, partial.stat()):
                raise DataError(
                    f"{_final(partial)}: its partial output ({partial.name}) was removed meanwhile; nothing was put in "
                    "place, run it again"
                )
            _put(partial, target)
    finally:
        if not resume:
            _remove(partial)


@contextmanager
def scratch_folder(target: PathLike) -> Iterator[Path]:
    """Yield an empty folder on the same disk as `target`, removed at the end; the next call removes what a killed
    process left."""
    target = Path(target)
    with locked(target), _write_errors(target):
        partial = _fresh(target)
        partial.mkdir()
        try:
            yield partial
        finally:
            _remove(partial)


def check_replaceable(
    folder: PathLike, is_such: Callable[[Path], bool], what: str, patterns: Collection[str] = ("*",)
) -> None:
    """Raise ParamsError for a folder with foreign content, which would be lost when it is replaced.

    Args:
        folder: the folder that will be written.
        is_such: whether a non-empty folder is of our kind, and may be replaced.
        what: name of our kind, for messages.
        patterns: patterns of the file names that belong to it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        return
    names = sorted(path.name for path in folder.iterdir() if ".partial-" not in path.name)
    if names and not is_such(folder):
        patterns = ()
    for name in names:
        if not any(fnmatch(name, pattern) for pattern in patterns):
            raise ParamsError(
                f"{_final(folder)}: holds {name!r}, which belongs to no {what}; expected a new or an empty folder, or "
                f"one that holds only a {what}"
            )


def _put(partial: Path, target: Path) -> None:
    """Flush a folder to disk, and replace the target with it."""
    mode = partial.stat().st_mode & _READ_AND_WRITE
    for path in partial.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(mode)  # libraries may have created files that only their owner can read
        if not path.is_symlink():
            _sync(path)
    _sync(partial)
    before = _partial(target, "before")
    if os.path.lexists(target):
        target.replace(before)
    try:
        partial.replace(target)
    except BaseException:
        if os.path.lexists(before):
            before.replace(target)
        raise
    _sync(target.parent)
    _remove(before)
