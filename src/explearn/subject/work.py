"""A folder that keeps finished parts of a call, so that a later call goes on with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from explearn.core.documents import read_json, text_digest
from explearn.core.validation import Shape, check
from explearn.core.writing import check_place, is_ours, locked, write_json
from explearn.metrics.runs import MethodRun, kept_run, write_run

WHAT = "a part of a working folder"

MARK = "work.json"
"""File that marks a folder as one of these."""


class KeptPart(Shape):
    """A part that is kept as JSON.

    Attributes:
        source: hash of all that it was made from.
        value: the part.
    """

    source: str
    value: Any


class Work:
    """Finished parts, each a file that says what it was made from; a part of something else is made anew.

    Args:
        folder: the folder. None: nothing is kept.

    Raises:
        ParamsError: the folder has other content, or a part was changed.
        DataError: the folder cannot be written.

    Example:
        >>> import tempfile
        >>> work = Work(tempfile.mkdtemp())
        >>> work.part("sum", (2, 3), lambda: 2 + 3), work.part("sum", (2, 3), lambda: 0)
        (5, 5)
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder: Path | None = None
        if folder is not None:
            self.folder = Path(folder)
            mark = self.folder / MARK
            if not is_ours(mark, WHAT):
                check_place(self.folder, WHAT, folder=True)
            write_json(mark, {"about": "parts of a call of Explearn, which the same call goes on with"}, WHAT)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other calls out of the folder within the block."""
        if self.folder is None:
            yield
            return
        with locked(self.folder / "parts", what=f"working folder {self.folder}"):
            yield

    def part(self, name: str, source: object, compute: Callable[[], Any]) -> Any:
        """Return a part as JSON values: the one that an earlier call made from the same, or what `compute` returns.

        Args:
            name: name of its file.
            source: all that it is made from.
            compute: makes it.

        Raises:
            ParamsError: the kept part was changed.
        """
        if self.folder is None:
            return compute()
        path = self.folder / f"{name}.json"
        digest = text_digest(repr(source))
        check_place(path, WHAT)
        if is_ours(path, WHAT):
            kept: KeptPart = check(KeptPart, read_json(path))
            if kept.source == digest:
                return kept.value
        value = compute()
        write_json(path, {"source": digest, "value": value}, WHAT)
        return value

    def run(self, name: str, source: object, compute: Callable[[], MethodRun]) -> tuple[MethodRun, bool]:
        """Return a method's run on some texts, kept like a `part`, and whether it was kept.

        Args:
            name: name of its file.
            source: all that it is made from.
            compute: makes it.
        """
        if self.folder is None:
            return compute(), False
        path = self.folder / f"{name}.parquet"
        digest = text_digest(repr(source))
        check_place(path, WHAT)
        kept = kept_run(path, digest)
        if kept is not None and is_ours(path, WHAT):
            return kept, True
        made = replace(compute(), source=digest)
        write_run(path, made, with_cost=True, what=WHAT)
        return made, False
