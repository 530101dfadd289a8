"""The texts of a large job, read one by one from a file of any length, and the file's fingerprint."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from explearn.core.errors import DataError
from explearn.core.escape import is_unicode
from explearn.text.encoding import TEXT
from explearn.text.rows import RawRow, read_file

if TYPE_CHECKING:
    from explearn.predictors.encoding import Text


class JobText(NamedTuple):
    """A text of the input.

    Attributes:
        id: value of the id column; empty if there is none.
        text: the text, or the two texts of a pair.
        where: file and row, for errors.
    """

    id: str
    text: Text
    where: str


@dataclass(frozen=True, slots=True)
class Input:
    """A file of texts: a .parquet, .csv or .jsonl table, or a .txt file with one text per line.

    Attributes:
        path: the file. It must be a regular one, because it is read more than once.
        text: column with the text.
        pair: column with its second segment, if any.
        id: column with an identifier, if any.
    """

    path: Path
    text: str = TEXT
    pair: str | None = None
    id: str | None = None

    def stamp(self) -> tuple[int, int]:
        """Return a stamp that changes when the file is written: its size and modification time."""
        status = self.path.stat()
        return status.st_size, status.st_mtime_ns

    def count(self) -> int:
        """Return the number of texts, at least one, checking every row.

        Raises:
            DataError: there is no text, or one cannot be explained; file, row and field are named.
        """
        number = 0
        for row in self._rows():
            number += 1
            row.text(self.text)
            if self.pair is not None:
                row.text(self.pair)
            if self.id is not None:
                column, value = row.value(self.id)
                if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
                    raise row.error(column, value, "a text or a whole number")
                if isinstance(value, str) and not is_unicode(value):
                    raise row.error(column, value, "valid Unicode")
        if not number:
            raise DataError(f"{self.path}: no text; expected at least one")
        return number

    def texts(self, start: int = 0) -> Iterator[JobText]:
        """Yield texts from index `start` on, after `count` has checked the file."""
        for row in islice(self._rows(), start, None):
            identifier = ""
            if self.id is not None:
                identifier = str(row.values[self.id])
            text = row.values[self.text]
            if self.pair is not None:
                text = text, row.values[self.pair]
            yield JobText(identifier, text, row.where)

    def _rows(self) -> Iterator[RawRow]:
        return read_file(self.path, [name for name in (self.text, self.pair, self.id) if name is not None])


class TextReader:
    """A reader of runs of an input's texts, usually forwards: only going back far reopens the file.

    Args:
        input: the file.
        most_back: most texts to go back without reading the file again.
    """

    def __init__(self, input: Input, most_back: int) -> None:
        self._input = input
        self._recent: deque[JobText] = deque(maxlen=most_back)
        self._rest: Iterator[JobText] = iter(())
        self._next: int | None = None  # index of the file's next row

    def texts(self, start: int) -> Iterator[JobText]:
        """Yield texts from index `start` on. Only the most recent iterator may be used."""
        if self._next is None or start < self._next - len(self._recent):
            self._rest = self._input.texts(start)
            self._next = start
            self._recent.clear()
        back = self._next - start
        if back > 0:
            yield from list(self._recent)[-back:]
        for row in self._rest:
            number = self._next
            self._next += 1
            self._recent.append(row)
            if number >= start:
                yield row
