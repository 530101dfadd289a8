"""Locks on the names that files and folders are written to.

Who writes holds `.NAME.partial-lock` from the first byte to the rename: a second writer waits. So what a writer finds
as partial was left by a dead one, and may go.

EXPLEARN_LOCK_TIMEOUT limits the wait, in seconds; without it a writer waits until the other has ended.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import filelock

from explearn.core.errors import DataError, ParamsError
from explearn.core.partials import make_parent, partial_path, shown, sweep, told

LOCK_TIMEOUT = "EXPLEARN_LOCK_TIMEOUT"
"""Environment variable: most seconds to wait for another run that writes the same."""

POLL_SECONDS = 0.1

_held = threading.local()
"""This thread's locks: path of the target -> how many times it was taken."""


@contextmanager
def locked(target: str | os.PathLike[str], what: str | None = None) -> Iterator[None]:
    """Keep all others, processes and threads, from writing `target` meanwhile; who holds it may take it again.

    Another writer is waited for, with a line on standard error that says so. What a dead one left is swept away.

    Args:
        what: what that line calls it (default: `target`).

    Raises DataError where EXPLEARN_LOCK_TIMEOUT runs out first, ParamsError where it is no number of seconds, or the
    target's name is none.
    """
    target = Path(target)
    if "\0" in str(target) or not target.name:
        raise ParamsError(f"{str(target)!r}: is no name that can be written; expected that of a file or folder")
    make_parent(target)
    key = os.path.join(os.path.realpath(target.parent), target.name)  # noqa: PTH118 (Path.resolve follows the name)
    held: dict[str, int] = _held.__dict__
    if key in held:
        held[key] += 1
        try:
            yield
        finally:
            held[key] -= 1
        return
    with told(target):
        lock = _acquired(target, what or str(shown(target)))
    held[key] = 1
    try:
        with told(target):
            sweep(target)
        yield
    finally:
        del held[key]
        # Unlinked while it is held: a waiting process sees that its open file has no name, and opens it anew.
        if isinstance(lock, filelock.UnixFileLock):
            with suppress(OSError):
                Path(lock.lock_file).unlink()
        lock.release(force=True)


def _acquired(target: Path, what: str) -> filelock.BaseFileLock:
    limit = _timeout()
    lock = filelock.FileLock(partial_path(target, "lock"), thread_local=False)
    try:
        return _with(lock, 0)
    except filelock.Timeout:
        _check_place(lock)
        wait = "" if limit is None else f", {limit:g} s at most"
        said = f"{what}: another run is writing it; waiting until it has ended{wait}"
        print(said, file=sys.stderr, flush=True)
    try:
        return _with(lock, -1 if limit is None else limit)
    except filelock.Timeout:
        raise DataError(
            f"{what}: another run is writing it and has not ended within {limit:g} s ({LOCK_TIMEOUT}); "
            "wait for it, or end it"
        ) from None


def _check_place(lock: filelock.BaseFileLock) -> None:
    """Raise OSError where no file can be made: filelock takes that for a lock that another holds, and waits for ever.

    So it is with /proc, which is a folder but says of every new file that there is no such folder.
    """
    if not os.path.lexists(lock.lock_file):
        os.close(os.open(lock.lock_file, os.O_WRONLY | os.O_CREAT, 0o666))


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
