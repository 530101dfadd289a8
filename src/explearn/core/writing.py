"""Atomic writing of files and folders: no path ever holds a half-written result, or a mix of two writers' results.

A file or folder is written next to its target, as `.NAME.partial-CHECK-*`, and renamed once it is complete and on disk.
Meanwhile its writer holds the lock `.NAME.partial-CHECK-lock`, and other writers wait; so partial files that a writer
finds were left by a dead one, and can be removed. CHECK is a hash of the rest of the name, by which they are told from
files of others. No reader looks at partial files.

What a user names as an output is replaced only if it is ours: the file LEDGER in its folder has the SHA-256 of each
file that was written there, and what it was written as. A file that is not listed, was changed since, or was written as
something else stays, unless `--force` is given. Files of a stage, which DVC keeps track of, are not listed.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path

import filelock

from explearn.core.documents import PathLike, check_regular, checked_path, file_digest, read_json
from explearn.core.errors import DataError, ExplearnError, ParamsError, first_line
from explearn.core.validation import Shape, check

POLL_SECONDS = 0.1

_READ_AND_WRITE = 0o666
"""Permissions of a new file, before the umask."""

_FAILED_WRITES = ("rror while serializing", "PytorchStreamWriter failed", "inline_container.cc")
"""Parts of safetensors' and torch's messages about a full disk."""

_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_PARTIAL_NAME = re.compile(r"^\.(.+)\.partial-([0-9a-f]{8})-([0-9a-z]+(?:\.[^.]*)?)$", re.DOTALL)


# ---- what may be replaced --------------------------------------------------------------------------------------------

LEDGER = ".explearn-written.json"
"""File in a folder that lists the files which this program wrote there."""


class Written(Shape):
    """A file that this program wrote.

    Attributes:
        what: what it was written as.
        sha256: of its content, and before it is put in place of the file that it replaces, too.
    """

    what: str
    sha256: list[str]


class _Ledger(Shape):
    """The content of LEDGER: path below the folder -> file."""

    about: str = "Files that Explearn wrote here, by which it tells them from yours. Keep this file with them."
    files: dict[str, Written]


@dataclass(frozen=True, slots=True)
class OutputRules:
    """What a call may replace.

    Attributes:
        inputs: real paths of the files and folders that it reads, which stay.
        force: replace whatever has an output's name.
        stage: DVC keeps track of the outputs, which are replaced, and not listed.
    """

    inputs: frozenset[str] = frozenset()
    force: bool = False
    stage: bool = False


_RULES = ContextVar("rules", default=OutputRules())  # noqa: B039 (it is frozen)

OUTPUTS = ("out", "save", "work", "path", "history")
"""Parameters that name what a call writes; whatever else names a file is an input."""


@contextmanager
def replacing(arguments: Iterable[tuple[str, object]] = (), **more: bool) -> Iterator[None]:
    """Set what the outputs of a call may replace within the block: not what its arguments name.

    Args:
        arguments: name and value of each argument.
        more: further fields of `OutputRules`.
    """
    rules = _RULES.get()
    inputs = set(rules.inputs)
    for name, value in arguments:
        named = [value]
        if isinstance(value, list | tuple):
            named = [path for path in value if isinstance(path, os.PathLike)]  # strings in a list are texts
        for path in named:
            if name in OUTPUTS or not isinstance(path, str | os.PathLike):
                continue
            if os.path.exists(path):  # noqa: PTH110 (Path.exists raises for texts that are no name)
                inputs.add(os.path.realpath(path))
    token = _RULES.set(replace(rules, inputs=frozenset(inputs), **more))
    try:
        yield
    finally:
        _RULES.reset(token)


def written_in(folder: Path) -> dict[str, Written]:
    """Return the files that this program wrote into a folder, by their paths below it.

    Raises:
        DataError: the list was changed.
    """
    path = folder / LEDGER
    if not os.path.lexists(path):
        return {}
    after = "; expected the list of files that Explearn wrote there, so remove it"
    ledger: _Ledger = check(_Ledger, read_json(path), before=f"{path}, ", after=after)
    return ledger.files


def is_ours(path: Path, what: str, folder: Path | None = None) -> bool:
    """Return whether this program wrote a file as `what`, and nobody has changed it since.

    Args:
        path: the file.
        what: what it was written as.
        folder: the folder that was written with it. None: it was written alone.
    """
    folder = folder or path.parent
    entry = written_in(folder).get(path.relative_to(folder).as_posix())
    if entry is None or entry.what != what or path.is_symlink() or not path.is_file():
        return False
    return file_digest(path) in entry.sha256


def check_place(target: PathLike, what: str | None = None, folder: bool = False) -> None:
    """Raise what `atomic_path` or `atomic_folder` would raise, without writing anything.

    For computations that take minutes before they write their result.

    Args:
        target: the file or folder.
        what: as for `atomic_path`.
        folder: whether it is a folder.

    Raises:
        ParamsError: it is something else than a file (or a folder), holds an input, or is not ours.
        DataError: it cannot be written.
    """
    _check_kind(target, folder)
    _check_ours(Path(target), what)
    with locked(target):
        pass


def _check_kind(target: PathLike, folder: bool) -> None:
    if not folder:
        check_regular(target, ParamsError)
    elif os.path.lexists(target) and not Path(target).is_dir():
        raise ParamsError(f"{_final(Path(target))}: is not a folder; expected a folder, or nothing")


def _listed(target: Path, what: str | None) -> bool:
    """Return whether a file or folder belongs into a ledger: not if it is a part of a folder that is being written."""
    return what is not None and not _RULES.get().stage and not any(map(_is_partial, target.parts[:-1]))


def _check_ours(target: Path, what: str | None) -> None:
    """Raise ParamsError if an input, or a file that is not ours, would be replaced."""
    if what is None or not _listed(target, what):
        return
    rules = _RULES.get()
    real = os.path.realpath(target)
    for source in rules.inputs:
        if source == real or source.startswith(real + os.sep):
            raise ParamsError(f"{target}: would replace {source}, which is read here; expected another place")
    written_in(target.parent)
    if rules.force or not os.path.lexists(target):
        return
    advice = "move or remove it, choose another place, or give the command --force"
    if target.is_symlink():
        raise ParamsError(f"{target}: is a link; {advice}")
    if target.is_dir():
        for path in sorted(target.rglob("*")):
            other = path.name != LEDGER and not _is_partial(path.name) and (path.is_symlink() or not path.is_dir())
            if other and not is_ours(path, what, target):
                name = path.relative_to(target).as_posix()
                raise ParamsError(f"{target}: holds {name!r}, which is not {what} as Explearn wrote it; {advice}")
    elif target.stat().st_size and not is_ours(target, what):
        raise ParamsError(f"{target}: exists and is not {what} as Explearn wrote it; {advice}")


def _list_file(target: Path, what: str, content: Path) -> None:
    """Add a file to its folder's ledger before it is put in place, so that it is ours even if the process dies then."""
    with locked(target.parent / LEDGER):
        files = written_in(target.parent)
        digests = [file_digest(content)]
        entry = files.get(target.name)
        if entry is not None and is_ours(target, entry.what):
            digests.append(file_digest(target))
        files[target.name] = Written(what=what, sha256=digests)
        write_json(target.parent / LEDGER, _Ledger(files=files).model_dump())


def _list_folder(folder: Path, what: str) -> None:
    """Write the ledger of a folder that is complete."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != LEDGER:
            files[path.relative_to(folder).as_posix()] = Written(what=what, sha256=[file_digest(path)])
    (folder / LEDGER).write_text(_Ledger(files=files).model_dump_json(indent=2), encoding="utf-8")


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
    return target.with_name(f".{target.name}.partial-{_name_check(target.name, end)}-{end}")


def _name_check(name: str, end: str) -> str:
    return hashlib.sha256(os.fsencode(f"{name}/{end}")).hexdigest()[:8]


def _is_partial(name: str) -> bool:
    """Return whether `_partial` made a name."""
    match = _PARTIAL_NAME.match(name)
    return match is not None and match[2] == _name_check(match[1], match[3])


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
        if _is_partial(leftover.name) and leftover.name not in keep:
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
def atomic_path(target: PathLike, what: str | None = None) -> Iterator[Path]:
    """Yield a path to write a file to; it replaces `target` when the block ends without an exception.

    Args:
        target: the file.
        what: what it is written as; only a file of ours that was written as the same is replaced. None: any file is.

    Raises:
        ParamsError: `target` is not a regular file, or not ours.
        DataError: it cannot be written.
    """
    target = Path(target)
    _check_kind(target, folder=False)
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
            _check_ours(target, what)
            if what is not None and _listed(target, what):
                _list_file(target, what, partial)
            partial.replace(target)
            _sync(target.parent)
        finally:
            partial.unlink(missing_ok=True)


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
            _check_kind(new, folder=False)
            moves.append((path, new))
    for path, new in moves:
        with locked(new), _write_errors(new):
            path.replace(new)


def write_text(target: PathLike, text: str, what: str | None = None) -> None:
    """Write UTF-8, whole or not at all; `what` and errors are those of `atomic_path`."""
    with atomic_path(target, what) as partial:
        # Only names of files may hold invalid Unicode.
        partial.write_text(text, encoding="utf-8", errors="replace")


def write_json(target: PathLike, value: object, what: str | None = None) -> None:
    """Write JSON, whole or not at all; `what` and further errors are those of `atomic_path`.

    Raises:
        ValueError: the value holds NaN or an infinity, which readers treat differently.
    """
    write_text(target, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", what)


# ---- folders ---------------------------------------------------------------------------------------------------------


@contextmanager
def atomic_folder(target: PathLike, what: str | None = None, resume: bool = False) -> Iterator[Path]:
    """Yield a folder to fill; it replaces `target` when the block ends without an exception.

    An earlier folder is moved aside during the rename: if the process dies then, the next writer restores it first.

    Args:
        target: the folder.
        what: what it is written as; only a folder whose files are all ours, written as the same, is replaced. None: any
            folder is.
        resume: keep the partial folder if the block raises or the process dies; the next call resumes with it.

    Raises:
        ParamsError: `target` is not a folder, or not ours.
        DataError: it cannot be written, or the folder to fill was removed meanwhile (a recreated one would hold only a
            part).
    """
    target = Path(checked_path(target, "folder"))
    _check_kind(target, folder=True)
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
            _check_ours(target, what)
            if what is not None and _listed(target, what):
                _list_folder(partial, what)
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
