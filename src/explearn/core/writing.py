"""Writing files and folders so that nothing half-written, and nothing of two writers, ever stands under a name.

A file or folder is written beside its place, as `.NAME.partial-*`, and put there by one rename once it is whole and on
disk. Who writes holds a lock on the name, `.NAME.partial-lock`, from the first byte to the rename: a second writer
waits. So what a writer finds as partial was left by a dead one, and may go. No reader looks at partial files.

EXPLEARN_LOCK_TIMEOUT limits the wait, in seconds; without it a writer waits until the other has ended.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import glob
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import stat
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import filelock

from explearn.core.errors import DataError, ParamsError, first_line

LOCK_TIMEOUT = "EXPLEARN_LOCK_TIMEOUT"
"""Environment variable: most seconds to wait for another run that writes the same."""

POLL_SECONDS = 0.1

LONGEST_NAME = 255
"""Bytes of a file's name on the usual file systems."""
_ROOM = 48
"""Bytes that the names of partial files need beside the target's own name."""

_RENAME_EXCHANGE = 2
"""Of renameat2(2): swap two names in one step."""
_AT_FDCWD = -100
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EXDEV)
"""What says that the kernel or the file system does not swap names."""

_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

_PARTIAL_NAME = re.compile(r"^\.(.+)\.partial-[0-9a-z]+(\.[^.]*)?$")

_held = threading.local()
"""This thread's locks: path of the target -> how many times it was taken."""


def odd_kind(path: str | os.PathLike[str]) -> str | None:
    """What stands at a path in place of a regular file ("a folder", "a pipe", ...); None for such a file or nothing."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # nothing there, or nothing that can be seen: who opens it says why
        return None
    return next((name for is_kind, name in _KINDS if is_kind(mode)), None)


def check_output(target: str | os.PathLike[str]) -> None:
    """Raise ParamsError where a file written to `target` would take the place of anything but a regular file."""
    kind = odd_kind(target)
    if kind is not None:
        raise ParamsError(f"{os.fspath(target)}: is {kind}; expected the name of a regular file, or a new one")


# ---- locks -------------------------------------------------------------------------------------------------------


@contextmanager
def locked(target: str | os.PathLike[str]) -> Iterator[None]:
    """Keep all others, processes and threads, from writing `target` meanwhile; who holds it may take it again.

    Another writer is waited for, with a line on standard error that says so. What a dead one left is swept away.

    Raises DataError where EXPLEARN_LOCK_TIMEOUT runs out first, ParamsError where it is no number of seconds.
    """
    target = Path(target)
    _make_parent(target)
    key = os.path.join(os.path.realpath(target.parent), target.name)  # noqa: PTH118 (Path.resolve follows the name)
    held: dict[str, int] = _held.__dict__
    if key in held:
        held[key] += 1
        try:
            yield
        finally:
            held[key] -= 1
        return
    with _told(target):
        lock = _acquired(target)
    held[key] = 1
    try:
        with _told(target):
            _sweep(target)
        yield
    finally:
        del held[key]
        # Unlinked while it is held: a waiting process sees that its open file has no name, and opens it anew.
        if isinstance(lock, filelock.UnixFileLock):
            with suppress(OSError):
                os.unlink(lock.lock_file)
        lock.release(force=True)


def _acquired(target: Path) -> filelock.BaseFileLock:
    limit = _timeout()
    lock = filelock.FileLock(_partial(target, "lock"), thread_local=False)
    try:
        return _with(lock, 0)
    except filelock.Timeout:
        wait = "" if limit is None else f", {limit:g} s at most"
        print(f"{_shown(target)}: another run is writing it; waiting until it has ended{wait}", file=sys.stderr, flush=True)
    try:
        return _with(lock, -1 if limit is None else limit)
    except filelock.Timeout:
        raise DataError(
            f"{_shown(target)}: another run is writing it and has not ended within {limit:g} s ({LOCK_TIMEOUT}); "
            "wait for it, or end it"
        ) from None


def _with(lock: filelock.BaseFileLock, timeout: float) -> filelock.BaseFileLock:
    lock.acquire(timeout=timeout, poll_interval=POLL_SECONDS)
    return lock


def _timeout() -> float | None:
    given = os.environ.get(LOCK_TIMEOUT, "").strip()
    if not given:
        return None
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise ParamsError(f"{LOCK_TIMEOUT}: got {given!r}; expected seconds, 0 or more")
    return seconds


# ---- partial files -----------------------------------------------------------------------------------------------


def _prefix(target: Path) -> str:
    name = target.name
    if len(os.fsencode(name)) > LONGEST_NAME - _ROOM:
        # Cut, with a digest in place of the rest, so that a long name leaves room for the partial files' own.
        start = os.fsencode(name)[:120].decode(errors="ignore")
        name = f"{start}~{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"
    return f".{name}.partial-"


def _partial(target: Path, end: str) -> Path:
    return target.with_name(_prefix(target) + end)


def _fresh(target: Path) -> Path:
    suffix = target.suffix if len(os.fsencode(target.suffix)) < 16 else ""
    return _partial(target, secrets.token_hex(4) + suffix)


def _sweep(target: Path) -> None:
    """Put back an earlier folder that a dead writer had moved aside, and remove what else it left."""
    before = _partial(target, "before")
    if os.path.lexists(before) and not os.path.lexists(target):
        os.replace(before, target)
    keep = {_partial(target, end).name for end in ("lock", "unfinished")}
    for leftover in target.parent.glob(glob.escape(_prefix(target)) + "*"):
        if leftover.name not in keep:
            _remove(leftover)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _make_parent(target: Path) -> None:
    """Make the folder for a target, unless that is inside a partial folder that is gone: it must not come back."""
    parent = target.parent
    if not parent.is_dir():
        for folder in (parent, *parent.parents):
            if _PARTIAL_NAME.match(folder.name) and not folder.is_dir():
                raise _vanished(folder)
        with _told(target):
            parent.mkdir(parents=True, exist_ok=True)


def _vanished(partial: Path) -> DataError:
    return DataError(
        f"{_shown(partial)}: what was written of it ({partial.name}) was removed meanwhile; nothing was put in place, "
        "run it again"
    )


@contextmanager
def _told(target: Path) -> Iterator[None]:
    """Turn what the disk says while `target` is written into one sentence; what is about other files passes."""
    try:
        yield
    except OSError as error:
        named = "" if error.filename is None else os.fspath(error.filename)
        own = isinstance(named, str) and (_prefix(target) in named or named in (str(target), str(target.parent)))
        if not own and error.errno not in _DISK_IS_FULL:
            raise
        reason = os.strerror(error.errno) if error.errno else first_line(error)
        raise _unwritten(target, reason) from error
    except Exception as error:
        # safetensors and torch have errors of their own for a full disk.
        text = str(error)
        if "rror while serializing" not in text and "PytorchStreamWriter failed" not in text:
            raise
        raise _unwritten(target, first_line(error)) from error


def _unwritten(target: Path, reason: str) -> DataError:
    return DataError(f"{_shown(target)}: cannot be written ({reason}); what was there is as it was")


def _shown(target: Path) -> Path:
    """A path as a reader knows it: inside a folder that is being written, under the name that this will have."""
    return Path(*(_PARTIAL_NAME.sub(r"\1", part) for part in target.parts))


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
    for path, _, names in os.walk(folder, topdown=False):
        for name in names:
            if not (Path(path) / name).is_symlink():
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
    with locked(target), _told(target):
        partial = _fresh(target)
        # Made here, not by tempfile, so that the umask says who may read it.
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            yield partial
            if not partial.is_file():
                raise _vanished(partial)
            _sync(partial)
            check_output(target)
            partial.replace(target)
            _sync(target.parent)
        finally:
            partial.unlink(missing_ok=True)


def write_text(target: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8, whole or not at all."""
    with atomic_path(target) as partial:
        partial.write_text(text, encoding="utf-8")


def json_text(
    value: object, *, indent: int | None = None, ascii_only: bool = False, sort_keys: bool = False
) -> str:
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
        raise DataError(f"{_shown(Path(target))}, {error}") from error
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
    with locked(target), _told(target):
        partial = _fresh(target)
        partial.mkdir()
        try:
            with _watched(partial):
                yield partial
            _put(partial, target)
        finally:
            _remove(partial)


@contextmanager
def resumable_folder(target: str | os.PathLike[str]) -> Iterator[Path]:
    """As `atomic_folder`, but what was filled in stays there when the block ends with an exception or the process
    dies, and the next call goes on with it."""
    target = Path(target)
    _check_folder(target)
    with locked(target), _told(target):
        partial = _partial(target, "unfinished")
        partial.mkdir(exist_ok=True)
        with _watched(partial):
            yield partial
        _put(partial, target)
        _remove(partial)


@contextmanager
def scratch_folder(beside: str | os.PathLike[str]) -> Iterator[Path]:
    """Give an empty folder on the same disk as `beside`, removed at the end; what a killed process left of an earlier
    one is removed by the next."""
    beside = Path(beside)
    with locked(beside), _told(beside):
        partial = _fresh(beside)
        partial.mkdir()
        try:
            yield partial
        finally:
            _remove(partial)


@contextmanager
def _watched(partial: Path) -> Iterator[None]:
    """Raise DataError at the end where the folder is no longer the one that it was at the start."""
    made = os.stat(partial)
    # While it is open no other folder can have its number.
    handle = os.open(partial, os.O_RDONLY) if hasattr(os, "O_DIRECTORY") else None
    try:
        yield
        found = os.stat(partial) if partial.is_dir() else None
        if found is None or (found.st_dev, found.st_ino) != (made.st_dev, made.st_ino):
            raise _vanished(partial)
    finally:
        if handle is not None:
            os.close(handle)


def _check_folder(target: Path) -> None:
    if os.path.lexists(target) and not target.is_dir():
        raise ParamsError(f"{_shown(target)}: is {odd_kind(target) or 'a file'}; expected a folder, or nothing")


def _put(partial: Path, target: Path) -> None:
    """Put a whole folder in the place of what is there; that is at `partial` then, or gone."""
    _check_folder(target)
    _sync_tree(partial)
    if not os.path.lexists(target):
        partial.replace(target)
    elif not _exchanged(partial, target):
        before = _partial(target, "before")
        target.replace(before)
        try:
            partial.replace(target)
        except BaseException:
            before.replace(target)
            raise
        _sync(target.parent)
        _remove(before)
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
