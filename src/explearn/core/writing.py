"""Writing files and folders so that nothing half-written, and nothing of two writers, ever stands under a name.

A file or folder is written beside its place, as `.NAME.partial-*`, and put there by a rename once it is whole and on
disk. Meanwhile its writer holds the lock `.NAME.partial-lock`, and a second writer waits; so what a writer finds as
partial was left by a dead one, and may go. No reader looks at partial files.

EXPLEARN_LOCK_TIMEOUT limits the wait, in seconds; without it a writer waits until the other has ended.
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

from explearn.core.documents import check_regular
from explearn.core.errors import DataError, ExplearnError, ParamsError, first_line

LOCK_TIMEOUT = "EXPLEARN_LOCK_TIMEOUT"
"""Environment variable: most seconds to wait for another run that writes the same."""

POLL_SECONDS = 0.1

_READ_AND_WRITE = 0o666
"""Permissions that a file may have, before the umask."""

_FAILED_WRITES = ("rror while serializing", "PytorchStreamWriter failed", "inline_container.cc")
"""Parts of what safetensors and torch say of a disk that takes no more."""

_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_PARTIAL_NAME = re.compile(r"^\.(.+)\.partial-[0-9a-z]+(\.[^.]*)?$")


def check_output(target: str | os.PathLike[str]) -> None:
    """Raise ParamsError where a file written to `target` would take the place of anything but a regular file."""
    check_regular(target, ParamsError)


def check_own(target: str | os.PathLike[str], is_such: Callable[[Path], bool], what: str) -> None:
    """Raise ParamsError where a file stands that is no `what` of ours: what is somebody else's would be lost.

    An empty file may go. Raises, too, what `check_place` raises.

    Args:
        is_such: whether a file that is not empty is one.
    """
    check_place(target)
    target = Path(target)
    if target.exists() and target.stat().st_size and not is_such(target):
        raise ParamsError(f"{target}: holds something else than {what}; expected a new name")


def is_page(path: Path) -> bool:
    """Return whether a file is an HTML page."""
    with path.open("rb") as file:
        return file.read(512).lstrip().lower().startswith(b"<!doctype html")


# ---- locks -----------------------------------------------------------------------------------------------------------


@contextmanager
def locked(target: str | os.PathLike[str], what: str | None = None) -> Iterator[None]:
    """Keep all others, processes and threads, from writing `target` meanwhile; who holds it may take it again.

    Another writer is waited for, with a line on standard error that says so. What a dead one left is removed.

    Args:
        what: what that line calls it (default: `target`).

    Raises DataError where EXPLEARN_LOCK_TIMEOUT runs out first, ParamsError where it is no number of seconds.
    """
    target, what = Path(target), what or str(_final(Path(target)))
    with _write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        place = Path(os.path.realpath(target.parent)) / target.name
        lock = filelock.FileLock(_partial(place, "lock"), is_singleton=True)
        first = not lock.is_locked
        # filelock tries for ever where no file can be made.
        os.close(os.open(lock.lock_file, os.O_RDWR | os.O_CREAT, _READ_AND_WRITE))
        _acquire(lock, what)
        if first:
            _sweep(target)
    try:
        yield
    finally:
        if first:
            # Unlinked while it is held: a waiting process sees that its open file has no name, and opens it anew.
            Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def _acquire(lock: filelock.BaseFileLock, what: str) -> None:
    written = os.environ.get(LOCK_TIMEOUT, "").strip() or "inf"
    if not re.fullmatch(r"inf|[0-9]+(\.[0-9]+)?", written):
        raise ParamsError(f"{LOCK_TIMEOUT}: got {written!r}; expected seconds, 0 or more")
    try:
        lock.acquire(timeout=0)
        return
    except filelock.Timeout:
        limit = "" if written == "inf" else f", {written} s at most"
        print(f"{what}: another run is writing it; waiting until it has ended{limit}", file=sys.stderr, flush=True)
    try:
        lock.acquire(timeout=-1 if written == "inf" else float(written), poll_interval=POLL_SECONDS)
    except filelock.Timeout:
        raise DataError(
            f"{what}: another run is writing it and has not ended within {written} s ({LOCK_TIMEOUT}); wait for it, or "
            "end it"
        ) from None


# ---- partial files ---------------------------------------------------------------------------------------------------


def _partial(target: Path, end: str) -> Path:
    if not target.name or "\0" in str(target):
        raise ParamsError(f"got {str(target)!r} to write to; expected the name of a file or a folder")
    return target.with_name(f".{target.name}.partial-{end}")


def _fresh(target: Path) -> Path:
    return _partial(target, secrets.token_hex(4) + target.suffix)


def _final(path: Path) -> Path:
    """Return a path as a reader knows it: what is inside a partial folder, under the name that this will have."""
    return Path(*(_PARTIAL_NAME.sub(r"\1", part) for part in path.parts))


def _sweep(target: Path) -> None:
    """Put back an earlier folder that a dead writer had moved aside, and remove what else it left."""
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
    """Turn what the disk says while `target` is written into one sentence; what is about other files passes."""
    try:
        yield
    except ExplearnError:
        raise
    except Exception as error:
        if isinstance(error, OSError):
            named = str(error.filename or "")
            ours = f".{target.name}.partial-" in named or named in (str(target), str(target.parent))
            full = error.errno in _DISK_IS_FULL
        else:  # safetensors and torch have errors of their own for a full disk
            ours, full = False, any(words in str(error) for words in _FAILED_WRITES)
        if not (ours or full):
            raise
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else first_line(error)
        raise DataError(f"{_final(target)}: cannot be written ({reason}); what was there is as it was") from error


def _vanished(partial: Path) -> DataError:
    return DataError(
        f"{_final(partial)}: what was written of it ({partial.name}) was removed meanwhile; nothing was put in place, "
        "run it again"
    )


def _sync(path: Path) -> None:
    """Have a file's content, or a folder's list of names, on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ---- files -----------------------------------------------------------------------------------------------------------


@contextmanager
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path to write a file to; it takes the place of `target` when the block ends without an exception.

    Raises ParamsError where `target` is something other than a regular file, DataError where it cannot be written or
    another writer does not end in time (`locked`).
    """
    target = Path(target)
    check_output(target)
    with locked(target), _write_errors(target):
        partial = _fresh(target)
        # Made here, not by tempfile, so that the umask says who may read it.
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _READ_AND_WRITE))
        mode = partial.stat().st_mode
        try:
            yield partial
            if not partial.is_file():
                raise _vanished(partial)
            # A library may have put a file of its own there, readable by its owner alone.
            partial.chmod(mode & _READ_AND_WRITE)
            _sync(partial)
            partial.replace(target)
            _sync(target.parent)
        finally:
            partial.unlink(missing_ok=True)


def check_place(target: str | os.PathLike[str]) -> None:
    """Raise what `atomic_path` would raise where no file can be written to `target`; no file is written.

    For what takes minutes until it writes its result.
    """
    check_output(target)
    with locked(target):
        pass


def put_files(folder: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Move every file of a folder to the same place below another, each in the place of what is there.

    All were written before, on the same disk; only renames are left.
    Raises ParamsError where one would take the place of anything but a regular file, before the first is moved.
    """
    moves = {
        path: Path(target) / path.relative_to(folder) for path in sorted(Path(folder).rglob("*")) if path.is_file()
    }
    for new in moves.values():
        check_output(new)
    for path, new in moves.items():
        with locked(new), _write_errors(new):
            path.replace(new)


def write_text(target: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8, whole or not at all."""
    with atomic_path(target) as partial:
        # A file's name may hold what is no Unicode; nothing else does.
        partial.write_text(text, encoding="utf-8", errors="replace")


def write_json(target: str | os.PathLike[str], value: object) -> None:
    """Write JSON, whole or not at all. Raises ValueError for NaN and infinities, on which readers disagree."""
    write_text(target, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


# ---- folders ---------------------------------------------------------------------------------------------------------


@contextmanager
def atomic_folder(target: str | os.PathLike[str], resume: bool = False) -> Iterator[Path]:
    """Give a folder to fill; it takes the place of `target` when the block ends without an exception.

    An earlier folder is moved aside for the moment of the rename: should the process die in it, the next writer puts it
    back first. Raises DataError where the folder cannot be written, another writer does not end in time (`locked`), or
    the folder to fill was removed meanwhile: if something made it anew, it holds a part.

    Args:
        resume: keep what was filled in when the block ends with an exception or the process dies; the next call goes
            on with it.
    """
    target = Path(target)
    if os.path.lexists(target) and not target.is_dir():
        raise ParamsError(f"{_final(target)}: is no folder; expected a folder, or nothing")
    partial = _partial(target, "unfinished") if resume else _fresh(target)
    try:
        with locked(target), _write_errors(target):
            partial.mkdir(exist_ok=True)
            handle = os.open(partial, os.O_RDONLY)  # while it is open no other folder can have its number
            try:
                yield partial
                if not (partial.is_dir() and os.path.samestat(os.fstat(handle), partial.stat())):
                    raise _vanished(partial)
            finally:
                os.close(handle)
            _put(partial, target)
    finally:
        if not resume:
            _remove(partial)


@contextmanager
def scratch_folder(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Give an empty folder on the same disk as `target`, removed at the end; what a killed process left of an earlier
    one is removed by the next."""
    target = Path(target)
    with locked(target), _write_errors(target):
        partial = _fresh(target)
        partial.mkdir()
        try:
            yield partial
        finally:
            _remove(partial)


def check_replaceable(
    folder: str | os.PathLike[str], is_such: Callable[[Path], bool], what: str, known: Collection[str] = ("*",)
) -> None:
    """Raise ParamsError for a folder that holds something else than what is to take its place: all of it would be lost.

    Args:
        is_such: whether a folder with something in it holds `what`, and may be replaced.
        known: patterns of the names that `what` has.
    """
    folder = Path(folder)
    names = sorted(path.name for path in folder.iterdir() if ".partial-" not in path.name) if folder.is_dir() else []
    patterns = known if names and is_such(folder) else ()
    if foreign := [name for name in names if not any(fnmatch(name, pattern) for pattern in patterns)]:
        raise ParamsError(
            f"{_final(folder)}: holds {foreign[0]!r}, which belongs to no {what}; expected a new or an empty folder, "
            f"or one with a {what} alone"
        )


def _put(partial: Path, target: Path) -> None:
    """Have a folder on disk, and put it in the place of what is there."""
    mode = partial.stat().st_mode & _READ_AND_WRITE
    for path in partial.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(mode)  # libraries may have made files that only their owner can read
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
