"""Rows of JSON Lines, CSV, Parquet and text files, with their place.

Every reader gives `RawRow`s, so that adapters and splits treat all kinds of source alike and every error names file,
row and field. Rows count from 1: lines of JSON Lines and text, rows of CSV (without the header) and of Parquet.
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
from explearn.core.words import Segment
from explearn.text.encoding import TEXT


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
    unread: Collection[str] = ()

    @property
    def where(self) -> str:
        """File and row."""
        return f"{self.file}, row {self.number}"

    def error(self, column: str, got: object, expected: str) -> DataError:
        """Return an error that names file, row and field."""
        return DataError(f"{self.where}, field {column!r}: got {shown(got)}; expected {expected}")

    def located(self, column: str = "") -> AbstractContextManager[None]:
        """Put file and row, and field if one is named, before the sentence of a DataError that the block raises."""
        if column:
            return located(f"{self.where}, field {column!r}: ")
        return located(f"{self.where}, ")

    def value(self, *columns: str) -> tuple[str, Any]:
        """Return (column, value) of the first of `columns` that the row has.

        Raises:
            DataError: it has none of them.
        """
        for column in columns:
            if column in self.values:
                return column, self.values[column]
        raise DataError(
            f"{self.where}, field {columns[0]!r}: missing; expected a column {' or '.join(map(repr, columns))}, "
            f"got {', '.join([*self.values, *self.unread])}"
        )

    def read(self, kind: Any, expected: str, *columns: str) -> Any:
        """Return the value of the first of `columns` present.

        Args:
            kind: type of the value.
            expected: the type in words, for messages.
            columns: names of columns.

        Raises:
            DataError: none is present, or its value is of another type.
        """
        column, value = self.value(*columns)
        try:
            return check(kind, value)
        except DataError as error:
            raise self.error(column, value, expected) from error

    def segment(self, *columns: str) -> Segment:
        """Return the text of the first of `columns` present, with its words.

        Raises:
            DataError: as `text`.
        """
        return Segment.of(self.text(*columns))

    def text(self, *columns: str) -> str:
        """Return the text of the first of `columns` present.

        Raises:
            DataError: none is present, or its value is not a text, is blank or holds an unusable word.
        """
        column, value = self.value(*columns)
        if not isinstance(value, str):
            raise self.error(column, value, "a text")
        if not value.strip():
            raise self.error(column, value, "a text of at least one word")
        with self.located():
            check_text(value, column)
        return value

    def word_list(self, *columns: str) -> tuple[str, ...]:
        """Return the words of the first of `columns` present, which holds a list.

        Raises:
            DataError: none is present, or its value is not a list of usable words.
        """
        words = tuple(self.read(list[Any], "a list of words", *columns))
        self.check_words(words, self.value(*columns)[0])
        return words

    def check_words(self, words: tuple[str, ...], column: str) -> None:
        """Raise DataError, naming file, row and field, for words that cannot be used."""
        with self.located():
            check_words(words, column)


INDEX = "\0index"
"""Stands for the name of a first column without one, in which pandas writes the numbers of rows; it is left out."""

LONGEST_CELL = 2**31 - 1
"""Characters in a cell of CSV; the length of a text is checked with the text."""

Rows = Iterator[tuple[int, dict[str, Any]]]
"""(row number from 1, column -> value)."""


def _read_csv(path: Path) -> Rows:
    number = 0
    csv.field_size_limit(LONGEST_CELL)
    reader = csv.reader((line for _, line in read_lines(path)), strict=True)
    try:
        header = next(reader, [])
        if header[:1] == [""]:
            header[0] = INDEX
        if not header or not all(header) or len(set(header)) != len(header):
            raise DataError(
                f"{path}: got the header {', '.join(header)!r}; expected a different name for each column in the first "
                "line"
            )
        for cells in reader:
            if not cells:  # a blank line
                continue
            number += 1
            if len(cells) != len(header):
                raise DataError(
                    f"{path}, row {number}: got {len(cells)} cells; expected {len(header)} ({', '.join(header)})"
                )
            row = dict(zip(header, cells, strict=True))
            row.pop(INDEX, None)
            yield number, row
    except csv.Error as error:
        raise DataError(f"{path}, row {number + 1}: not valid CSV ({error})") from error


def _read_text(path: Path) -> Rows:
    """Yield each line with more than white space as a row of the one column TEXT."""
    for number, line in read_lines(path):
        if line.strip():
            yield number, {TEXT: line.rstrip("\r\n")}


TABLES: dict[str, Callable[[Path], Rows]] = {".jsonl": read_jsonl, ".csv": _read_csv, ".parquet": iter_rows}
"""Ending of a table's name -> its reader."""

READERS = {**TABLES, ".txt": _read_text}


def check_readable(path: Path) -> None:
    """Raise DataError for a file that is missing, not regular, or of a kind that `read_file` does not read."""
    check_regular(path)
    if path.suffix not in READERS:
        raise DataError(f"{path}: got a file ending in {path.suffix!r}; expected {', '.join(READERS)}")
    if not path.exists():
        raise DataError(f"{path}: no such file")


def read_file(path: str | Path, columns: Collection[str] | None = None) -> Iterator[RawRow]:
    """Yield the rows of a .jsonl, .csv, .parquet or .txt file.

    Args:
        path: the file.
        columns: names of the columns that will be used; of Parquet, no other is decoded. None: all.

    Raises:
        DataError: the file is missing, of another kind, not UTF-8, cut short or damaged.
    """
    path = Path(path)
    check_readable(path)
    unread: Collection[str] = ()
    if path.suffix == ".parquet" and columns is not None:
        unread = [name for name in column_names(path) if name not in columns]
        rows = iter_rows(path, columns)
    else:
        rows = READERS[path.suffix](path)
    for number, values in rows:
        yield RawRow(str(path), path.stem, number, values, unread=unread)
