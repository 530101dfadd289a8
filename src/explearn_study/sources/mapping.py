"""Adapters: from a raw row to its words, its label and its marks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from explearn.core.records import Split
from explearn.core.validation import whole_number
from explearn.text.mapping import MappedRow, identifier, one_of
from explearn.text.rows import RawRow

OWN_NAMES: Mapping[Split, tuple[str, ...]] = {
    "train": ("train",),
    "validation": ("validation",),
    "test": ("test",),
}
"""File stems where each split has its own name."""

ALL_SPLITS: Mapping[Split, str] = {"train": "train", "validation": "validation", "test": "test"}

ID_COLUMNS = ("id", "idx")
"""Columns from which `row_id` takes a row's identifier."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A row that is no example, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class HubDefault:
    """The place of a data set on the hub, and the way in which its splits become ours."""

    name: str
    splits: Mapping[Split, str]
    config: str | None = None
    revision: str | None = None


class Adapter(ABC):
    """Maps the rows of one data set.

    Attributes:
        labels: label order of the task; None where the labels are those found in train, sorted.
        hub: where the hub has it; None for sources that exist only as files.
        file_splits: our split -> stems of its file, in order of preference.
        splits_in_rows: whether one file holds all splits and each row names its own.
        columns: all that `map_row` may ask a row for; no other column is read.
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
        """Raises DataError naming file, row and field for a row that cannot be used."""


def row_id(row: RawRow, task: str) -> str | None:
    """The row's own identifier: column `id`, or TASK-FILE-IDX from a running number `idx`, or None.

    Raises DataError as `identifier` does.
    """
    if row.values.get("id") is not None:
        return identifier(row, "id", row.values["id"])
    running = row.values.get("idx")
    return None if running is None else f"{task}-{row.stem}-{identifier(row, 'idx', running)}"


def class_label(
    row: RawRow, column: str, value: object, labels: Sequence[str], aliases: Mapping[str, str], path: str | None = None
) -> str:
    """The label that a raw value stands for.

    A string is a label or, in any case, one of `aliases`. An integer (or its digits, as CSV gives it) counts in the
    classes that the source declares for the column, else in `labels`. `path` is the column's full name when it lies in
    another. Raises DataError, with near names, for anything else.
    """
    name = value
    if isinstance(value, str) and value.strip() not in labels and (code := whole_number(value)) is not None:
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
