"""The interface of adapters, which turn a raw row into words, a label and marks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from explearn.core.examples import Split
from explearn.core.validation import whole_number
from explearn.text.mapping import MappedRow, identifier, one_of
from explearn.text.rows import RawRow

OWN_NAMES: Mapping[Split, tuple[str, ...]] = {
    "train": ("train",),
    "validation": ("validation",),
    "test": ("test",),
}
"""File stems for files named after our splits."""

ALL_SPLITS: Mapping[Split, str] = {"train": "train", "validation": "validation", "test": "test"}

ID_COLUMNS = ("id", "idx")
"""Columns from which `row_id` takes a row's identifier."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A row that does not become an example, and the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class HubDefault:
    """The name of a data set on the hub, and the mapping of its splits to ours."""

    name: str
    splits: Mapping[Split, str]
    config: str | None = None
    revision: str | None = None


class Adapter(ABC):
    """A mapping of one data set's rows.

    Attributes:
        labels: the task's labels in order; None: the labels found in train, sorted.
        hub: the data set on the hub; None for sources that exist only as files.
        file_splits: our split -> stems of its file, in order of preference.
        splits_in_rows: whether one file holds all splits and each row names its own.
        columns: the columns that `map_row` may use; no other column is read.
    """

    labels: tuple[str, ...] | None = None
    hub: HubDefault | None = None
    file_splits: Mapping[Split, tuple[str, ...]] = OWN_NAMES
    splits_in_rows: bool = False

    @property
    @abstractmethod
    def columns(self) -> Collection[str]: ...

    @abstractmethod
    def map_row(self, row: RawRow) -> MappedRow | Dropped:
        """Map a row.

        Raises:
            DataError: the row cannot be used; names file, row and field.
        """


def row_id(row: RawRow, task: str) -> str | None:
    """Return the row's identifier: column `id`, or TASK-FILE-IDX from a running number `idx`, or None.

    Raises as `identifier` does.
    """
    if row.values.get("id") is not None:
        return identifier(row, "id", row.values["id"])
    if row.values.get("idx") is not None:
        return f"{task}-{row.stem}-{identifier(row, 'idx', row.values['idx'])}"
    return None


def class_label(
    row: RawRow, column: str, value: object, labels: Sequence[str], aliases: Mapping[str, str], path: str | None = None
) -> str:
    """Return the label of a raw value.

    A string is a label or, in upper or lower case, one of `aliases`. An integer (or its digits, as in CSV) is an index
    into the classes that the source declares for the column, else into `labels`.

    Args:
        row: the row.
        column: its column.
        value: the raw value.
        labels: the task's labels.
        aliases: other names of the labels, in lower case.
        path: the full name of a nested column. None: `column`.

    Raises:
        DataError: anything else; suggests similar names.
    """
    name = value
    if isinstance(value, str) and value.strip() not in labels:
        code = whole_number(value)
        if code is not None:
            name = code
    if isinstance(name, int) and not isinstance(name, bool):
        declared = row.class_names.get(path or column, tuple(labels))
        if not 0 <= name < len(declared):
            codes = ", ".join(f"{code} ({label})" for code, label in enumerate(declared))
            raise row.error(column, value, f"one of {codes}")
        name = declared[name]
    if not isinstance(name, str):
        raise row.error(column, value, one_of(str(value), labels))
    folded = name.strip().casefold()
    label = aliases.get(folded, folded)
    if label not in labels:
        raise row.error(column, value, one_of(name, labels))
    return label
