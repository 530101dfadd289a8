"""Partial files, which stand beside a target while it is written: names, removal, and how errors are told."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from explearn.core.errors import DataError, ExplearnError, ParamsError, first_line

LONGEST_NAME = 255
"""Bytes of a file's name on the usual file systems."""
_ROOM = 48
"""Bytes that the names of partial files need beside the target's own name."""

_FAILED_WRITES = ("rror while serializing", "PytorchStreamWriter failed", "inline_container.cc")
"""What safetensors and torch say of a disk that takes no more."""
_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_PARTIAL_NAME = re.compile(r"^\.(.+)\.partial-[0-9a-z]+(\.[^.]*)?$")


def odd_kind(path: str | os.PathLike[str]) -> str | None:
    """What stands at a path in place of a regular file ("a folder", "a pipe", ...); None for such a file or nothing."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):  # nothing there, or nothing that can be seen: who opens it says why
        return None
    return next((name for is_kind, name in _KINDS if is_kind(mode)), None)


def check_output(target: str | os.PathLike[str]) -> None:
    """Raise ParamsError where a file written to `target` would take the place of anything but a regular file."""
    kind = odd_kind(target)
    if kind is not None:
        raise ParamsError(f"{os.fspath(target)}: is {kind}; expected the name of a regular file, or a new one")


def _prefix(target: Path) -> str:
    name = target.name
    if len(os.fsencode(name)) > LONGEST_NAME - _ROOM:
        # Cut, with a digest in place of the rest, so that a long name leaves room for the partial files' own.
        start = os.fsencode(name)[:120].decode(errors="ignore")
        name = f"{start}~{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"
    return f".{name}.partial-"


def partial_path(target: Path, end: str) -> Path:
    return target.with_name(_prefix(target) + end)


def fresh_path(target: Path) -> Path:
    suffix = target.suffix if len(os.fsencode(target.suffix)) < 16 else ""
    return partial_path(target, secrets.token_hex(4) + suffix)


def sweep(target: Path) -> None:
    """Put back an earlier folder that a dead writer had moved aside, and remove what else it left."""
    before = partial_path(target, "before")
    if os.path.lexists(before) and not os.path.lexists(target):
        before.replace(target)
    keep = {partial_path(target, end).name for end in ("lock", "unfinished")}
    for leftover in target.parent.glob(glob.escape(_prefix(target)) + "*"):
        if leftover.name not in keep:
            remove(leftover)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def make_parent(target: Path) -> None:
    """Make the folder for a target, unless that is inside a partial folder that is gone: it must not come back."""
    parent = target.parent
    if not parent.is_dir():
        for folder in (parent, *parent.parents):
            if _PARTIAL_NAME.match(folder.name) and not folder.is_dir():
                raise vanished(folder)
        with told(target):
            parent.mkdir(parents=True, exist_ok=True)


def vanished(partial: Path) -> DataError:
    return DataError(
        f"{shown(partial)}: what was written of it ({partial.name}) was removed meanwhile; nothing was put in place, "
        "run it again"
    )


@contextmanager
def told(target: Path) -> Iterator[None]:
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
    except ExplearnError:
        raise
    except Exception as error:
        # safetensors and torch have errors of their own for a full disk.
        text = str(error)
        if not any(sign in text for sign in _FAILED_WRITES):
            raise
        raise _unwritten(target, first_line(error)) from error


def _unwritten(target: Path, reason: str) -> DataError:
    return DataError(f"{shown(target)}: cannot be written ({reason}); what was there is as it was")


def shown(target: Path) -> Path:
    """A path as a reader knows it: inside a folder that is being written, under the name that this will have."""
    return Path(*(_PARTIAL_NAME.sub(r"\1", part) for part in target.parts))
