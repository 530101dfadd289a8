"""Raw rows with their place, from JSON Lines, CSV, Parquet and the hub.

Every reader gives `RawRow`s, so that what comes after it (adapters, splits) is the same for all kinds of source and
every error can say file, row and field. Rows count from 1: lines of JSON Lines, records of CSV (the header is not
counted) and Parquet.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from explearn.core.documents import check_regular, read_jsonl, read_lines
from explearn.core.errors import DataError, located, shown
from explearn.core.examples import check_text, check_words
from explearn.core.parquet import column_names, iter_rows
from explearn.core.validation import check
from explearn.text.encoding import TEXT

BATCH_ROWS = 1024
"""Rows of a Parquet file turned into Python objects at a time."""


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row as its source gives it.

    Attributes:
        file: path or hub name, as errors show it.
        stem: name of the file without its ending, or of the hub's split; part of ids made up for rows without one.
        number: row in the file, from 1.
        values: column -> value.
        class_names: column -> names of the classes that integers in it stand for, where the source declares them;
            a column inside another is written with a dot.
        unread: names of the columns that were not asked for.
    """

    file: str
    stem: str
    number: int
    values: Mapping[str, Any]
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        return f"{self.file}, row {self.number}"

    def error(self, column: str, got: object, expected: str) -> DataError:
        return DataError(f"{self.where}, field {column!r}: got {shown(got)}; expected {expected}")

    def located(self, column: str = "") -> AbstractContextManager[None]:
        """Put file and row, and field if one is named, before the sentence of a DataError that the block raises."""
        return located(f"{self.where}, field {column!r}: " if column else f"{self.where}, ")

    def value(self, *columns: str) -> tuple[str, Any]:
        """Return (column, value) of the first of `columns` that the row has; raises DataError where it has none."""
        for column in columns:
            if column in self.values:
                return column, self.values[column]
        raise DataError(
            f"{self.where}, field {columns[0]!r}: missing; expected a column {' or '.join(map(repr, columns))}, "
            f"got {', '.join([*self.values, *self.unread])}"
        )

    def read(self, kind: Any, expected: str, *columns: str) -> Any:
        """Return the value of the first of `columns` present. Raises DataError where it is none of `kind`."""
        column, value = self.value(*columns)
        try:
            return check(kind, value)
        except DataError as error:
            raise self.error(column, value, expected) from error

    def words(self, *columns: str) -> tuple[str, ...]:
        """Return the white-space separated words of the first of `columns` present.

        Raises DataError when the value is no text, is empty or holds an unusable word.
        """
        return tuple(self.text(*columns).split())

    def text(self, *columns: str) -> str:
        """Return the text of the first of `columns` present; raises DataError as `words` does."""
        column, value = self.value(*columns)
        if not isinstance(value, str):
            raise self.error(column, value, "a text")
        if not value.strip():
            raise self.error(column, value, "a text of at least one word")
        with self.located():
            check_text(value, column)
        return value

    def word_list(self, *columns: str) -> tuple[str, ...]:
        """Return words given as a list in the first of `columns` present; raises DataError as `words` does."""
        words = tuple(self.read(list[Any], "a list of words", *columns))
        self.check_words(words, self.value(*columns)[0])
        return words

    def check_words(self, words: tuple[str, ...], column: str) -> None:
        """Raise DataError, naming file, row and field, for words that cannot be used."""
        with self.located():
            check_words(words, column)


def _read_csv(path: Path, columns: Collection[str] | None) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    reader = csv.reader((line for _, line in read_lines(path)), strict=True)
    try:
        header = next(reader, None)
        if not header:
            raise DataError(f"{path}: no header; expected column names in the first line")
        if len(set(header)) != len(header) or not all(header):
            raise DataError(f"{path}: got the header {', '.join(header)}; expected a different name for each column")
        for cells in filter(None, reader):  # not the blank lines
            number += 1
            if len(cells) != len(header):
                raise DataError(
                    f"{path}, row {number}: got {len(cells)} cells; expected {len(header)} ({', '.join(header)})"
                )
            yield number, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise DataError(f"{path}, row {number + 1}: not valid CSV ({error})") from error


Reader = Callable[[Path, Collection[str] | None], Iterator[tuple[int, dict[str, Any]]]]

TABLES: dict[str, Reader] = {
    ".jsonl": lambda path, _: read_jsonl(path),
    ".csv": _read_csv,
    ".parquet": lambda path, columns: iter_rows(path, BATCH_ROWS, columns),
}

READERS: dict[str, Reader] = {
    **TABLES,
    # Each line with more than white space is a row of the one column TEXT.
    ".txt": lambda path, _: ((n, {TEXT: line.rstrip("\r\n")}) for n, line in read_lines(path) if line.strip()),
}


def reader_of(path: Path) -> Reader:
    """Return the reader of a file. Raises DataError for one that is missing, not regular, or of another kind."""
    check_regular(path)
    if path.suffix not in READERS:
        raise DataError(f"{path}: got a file ending in {path.suffix!r}; expected {', '.join(READERS)}")
    if not path.exists():
        raise DataError(f"{path}: no such file")
    return READERS[path.suffix]


def read_file(path: str | Path, columns: Collection[str] | None = None) -> Iterator[RawRow]:
    """Yield the rows of a .jsonl, .csv, .parquet or .txt file.

    Args:
        columns: those that will be asked for; of Parquet, no other is decoded. Default: all.

    Raises DataError naming file (and row) when it is missing, of another kind, not UTF-8, cut short, damaged, or larger
    than the limit once decoded (see `explearn.core.parquet`).
    """
    path = Path(path)
    reader = reader_of(path)
    others: tuple[str, ...] = ()
    if path.suffix == ".parquet" and columns is not None:
        others = tuple(name for name in column_names(path) if name not in columns)
    for number, values in reader(path, columns):
        yield RawRow(str(path), path.stem, number, values, unread=others)
