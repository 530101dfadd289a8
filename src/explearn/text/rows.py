"""Raw rows with their place, from JSON Lines, CSV, Parquet and the hub.

Every reader gives `RawRow`s, so that what comes after it (adapters, splits) is the same for all kinds of source and
every error can say file, row and field. Rows count from 1: lines of JSON Lines, records of CSV (the header is not
counted) and Parquet.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from explearn.core.documents import check_regular, read_jsonl
from explearn.core.errors import DataError, first_line, shown
from explearn.core.extras import need
from explearn.core.parquet import column_names, iter_rows
from explearn.core.records import SPLITS, Split, check_text, check_words
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

    @contextmanager
    def located(self, column: str) -> Iterator[None]:
        """Put file, row and field before the sentence of a DataError."""
        try:
            yield
        except DataError as error:
            raise DataError(f"{self.where}, field {column!r}: {error}") from error

    def value(self, *columns: str) -> tuple[str, Any]:
        """Return (column, value) of the first of `columns` that the row has; raises DataError where it has none."""
        for column in columns:
            if column in self.values:
                return column, self.values[column]
        raise DataError(
            f"{self.where}, field {columns[0]!r}: missing; expected a column {' or '.join(map(repr, columns))}, "
            f"got {', '.join([*self.values, *self.unread])}"
        )

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
        try:
            check_text(value, column)
        except DataError as error:
            raise DataError(f"{self.where}, {error}") from error
        return value

    def word_list(self, *columns: str) -> tuple[str, ...]:
        """Return words given as a list in the first of `columns` present; raises DataError as `words` does."""
        column, value = self.value(*columns)
        if not isinstance(value, list):
            raise self.error(column, value, "a list of words")
        self.check_words(tuple(value), column)
        return tuple(value)

    def check_words(self, words: tuple[str, ...], column: str) -> None:
        """Raise DataError, naming file, row and field, for words that cannot be used."""
        try:
            check_words(words, column)
        except DataError as error:
            raise DataError(f"{self.where}, {error}") from error


def _read_csv(path: Path, columns: Collection[str] | None) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    reader = csv.reader((line for _, line in _lines(path)), strict=True)
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


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, line with its end). Raises DataError, naming the line, for bytes that are not UTF-8."""
    check_regular(path)
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                try:
                    yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise DataError(f"{path}, line {number}: byte {error.start} is not valid UTF-8") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


LINES = ".txt"
"""Ending of files that hold a text a line."""


def read_text_lines(path: Path) -> Iterator[RawRow]:
    """Yield the lines of a file that hold more than white space, as rows of the one column TEXT.

    Raises DataError, naming file and line, where it cannot be read or is not UTF-8.
    """
    for number, line in _lines(path):
        if line.strip():
            yield RawRow(str(path), path.stem, number, {TEXT: line.rstrip("\r\n")})


READERS: dict[str, Callable[[Path, Collection[str] | None], Iterator[tuple[int, dict[str, Any]]]]] = {
    ".jsonl": lambda path, _: read_jsonl(path),
    ".csv": _read_csv,
    ".parquet": lambda path, columns: iter_rows(path, BATCH_ROWS, columns),
}


def read_file(path: str | Path, columns: Collection[str] | None = None) -> Iterator[RawRow]:
    """Yield the rows of a .jsonl, .csv or .parquet file.

    Args:
        columns: those that will be asked for; of Parquet, no other is decoded. Default: all.

    Raises DataError naming file (and row) when it is missing, of another kind, not UTF-8, cut short, damaged, or larger
    than the limit once decoded (see `explearn.core.parquet`).
    """
    path = Path(path)
    reader = READERS.get(path.suffix)
    if reader is None:
        raise DataError(f"{path}: got a file ending in {path.suffix!r}; expected {', '.join(READERS)}")
    check_regular(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    others: tuple[str, ...] = ()
    if path.suffix == ".parquet" and columns is not None:
        others = tuple(name for name in column_names(path) if name not in columns)
    for number, values in reader(path, columns):
        yield RawRow(str(path), path.stem, number, values, unread=others)


def find_source(data_dir: str | Path, name: str) -> Path:
    """File or folder `name` under `data_dir`; the ending of a file may be left out.

    Raises DataError when there is none, or when several files differ only in their ending.
    """
    path = Path(data_dir) / name
    try:
        if path.exists():
            return path
        file = _with_endings(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    if file is None:
        raise DataError(f"{path}: no such file or folder; expected a folder, or a file ending in {', '.join(READERS)}")
    return file


def _with_endings(path: Path) -> Path | None:
    files = [candidate for ending in READERS if (candidate := path.with_name(path.name + ending)).is_file()]
    if len(files) > 1:
        raise DataError(
            f"{path.parent}: got {', '.join(file.name for file in files)}; expected one file of the name {path.name}"
        )
    return files[0] if files else None


def split_files(folder: Path, wanted: Mapping[Split, tuple[str, ...]], strict: bool) -> dict[Split, Path]:
    """Files of a folder by our split.

    `wanted` gives the stems to look for, in order of preference. A split without a file is left out, unless it is
    train or `strict` is set: then DataError names the stem that was looked for and what the folder holds.
    """
    files: dict[Split, Path] = {}
    for split, stems in wanted.items():
        chosen = next((file for stem in stems if (file := _with_endings(folder / stem))), None)
        if chosen is not None:
            files[split] = chosen
        elif strict or split == "train":
            present = sorted(p.name for p in folder.iterdir() if p.suffix in READERS)
            raise DataError(
                f"{folder}: no file for split {split!r}; expected {' or '.join(stems)} ending in {', '.join(READERS)}, "
                f"got {', '.join(present) or 'none'}"
            )
    return files


def hub_folder(data_dir: str | Path, name: str) -> Path | None:
    """The local folder that a hub name stands for (under `data_dir`, or as given); None where there is none."""
    return next((path for path in (Path(data_dir) / name, Path(name)) if path.is_dir()), None)


def folder_configs(folder: Path) -> list[str]:
    """Configurations of a folder in the hub's file layout; raises DataError when it holds no data."""
    # It takes a second to import; only this kind of source needs it.
    datasets = need("datasets", extra="pipeline", what=f"{folder}: a data set in the hub's layout")

    try:
        return list(datasets.get_dataset_config_names(str(folder)))
    except Exception as error:
        raise DataError(f"{folder}: cannot be read as a data set of the hub's layout ({_reason(error)})") from error


def read_hub(
    name: str,
    config: str | None,
    revision: str | None,
    splits: Mapping[Split, str] | None,
    columns: Collection[str] | None = None,
) -> dict[Split, Iterator[RawRow]]:
    """Rows of a data set on the hub, or in a local folder with the hub's file layout, by our split.

    Args:
        name: hub name, or a folder.
        config: configuration to load.
        revision: git revision on the hub.
        splits: our split -> split expression of the `datasets` library; None takes those of our names that exist.
        columns: those that will be asked for; no other (images, say) is decoded. Default: all.

    Raises DataError in one sentence when the data set cannot be had (unknown, offline, needs code of its own, damaged).
    """
    datasets = need("datasets", extra="pipeline", what=f"hub data set {name!r}")
    try:
        if splits is None:
            loaded = datasets.load_dataset(name, config, revision=revision)
            parts = {split: (str(split), loaded[split]) for split in SPLITS if split in loaded}
        else:
            parts = {
                split: (expression, datasets.load_dataset(name, config, split=expression, revision=revision))
                for split, expression in splits.items()
            }
    except Exception as error:  # the library raises its own, the hub client's, pyarrow's and the standard library's
        raise DataError(
            f"hub data set {name!r}{f', configuration {config!r}' if config else ''}: cannot be loaded "
            f"({_reason(error)}); check its name, its splits and the connection, or give a local copy as path"
        ) from error
    if "train" not in parts:
        raise DataError(f"hub data set {name!r}: got the splits {', '.join(loaded)}; expected train, or splits.train")
    return {split: _hub_rows(name, expression, part, columns) for split, (expression, part) in parts.items()}


def _reason(error: BaseException) -> str:
    return first_line(error.__cause__ or error).rstrip(".")


def _hub_rows(name: str, expression: str, part: Any, columns: Collection[str] | None) -> Iterator[RawRow]:
    names = dict(_class_names(part.features, ""))
    wanted = [column for column in part.column_names if columns is None or column in columns]
    unread = tuple(column for column in part.column_names if column not in wanted)
    # Without any column there would be no rows to complain of.
    rows = iter(part.select_columns(wanted)) if wanted else ({} for _ in range(part.num_rows))
    number = 0
    try:
        for number, values in enumerate(rows, start=1):
            yield RawRow(f"{name}:{expression}", expression, number, values, names, unread)
    except Exception as error:  # whatever the library raises for what it cannot decode
        raise DataError(f"{name}:{expression}, row {number + 1}: cannot be read ({_reason(error)})") from error


def _class_names(feature: Any, path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(feature, Mapping):
        for key, inner in feature.items():
            yield from _class_names(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(feature, list):
        yield from _class_names(feature[0], path)
    elif hasattr(feature, "feature"):
        yield from _class_names(feature.feature, path)
    elif hasattr(feature, "int2str"):
        yield path, tuple(feature.names)
