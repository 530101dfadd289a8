"""The words, label and marks of a raw row."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from datetime import date
from numbers import Number
from typing import Any, NamedTuple

from explearn.core.errors import DataError, shown
from explearn.core.escape import is_unicode
from explearn.core.examples import Example, Rationale, RationaleKind, Split
from explearn.text.rows import RawRow


class Marks(NamedTuple):
    """One annotator's mask over words + pair of a row."""

    annotator: str
    kind: RationaleKind
    mask: tuple[bool, ...]


class MappedRow(NamedTuple):
    """A row on its way to an example: not yet in a split and, where the source gives none, without an id.

    Attributes:
        words: words of the text, or of the first segment of a pair.
        label: one of the adapter's labels.
        pair: words of the second segment.
        id: identifier, or None for TASK-FILE-ROW.
        split: the row's own split, for files that hold several.
        marks: the rationales in the row.
        lost: what of the row could not be used, reason -> count.
        focus: as in Example.
        gaps: as in Example.
    """

    words: tuple[str, ...]
    label: str
    pair: tuple[str, ...] = ()
    id: str | None = None
    split: Split | None = None
    marks: tuple[Marks, ...] = ()
    lost: Mapping[str, int] | None = None
    focus: tuple[int, int] | None = None
    gaps: tuple[str, ...] = ()

    def example(self, row: RawRow, identifier: str, split: Split, task: str) -> tuple[Example, list[Rationale]]:
        """Return the example of the row, and its rationales.

        Raises:
            DataError: it cannot be used, or marks are not one for each word; names file and row.
        """
        with row.located():
            example = Example(identifier, self.words, self.label, split, task, self.pair, self.focus, self.gaps)
        expected = len(example.all_words)
        rationales = []
        for marks in self.marks:
            if len(marks.mask) != expected:
                raise row.error("rationale", f"{len(marks.mask)} entries", f"{expected}, one for each word")
            rationales.append(Rationale(identifier, marks.annotator, marks.kind, marks.mask))
        return example, rationales


def cell_text(value: Any) -> str:
    """Return a cell that names a label or a group, as text without blanks around it; empty if it is missing.

    None, NaN, pandas' NA and blank text are missing. 1990.0 is 1990: where a column of numbers has gaps, they are read
    as floats.

    Args:
        value: the cell.

    Raises:
        DataError: a list or another value that names nothing.

    Example:
        >>> [cell_text(value) for value in (" north ", 1990.0, None, float("nan"))]
        ['north', '1990', '', '']
    """
    if getattr(value, "ndim", None) == 0:
        value = value.item()  # of numpy
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if not isinstance(value, str | Number | date):
        raise DataError(f"got {shown(value)}; expected text or a number")
    if value != value:  # NaN is not itself
        return ""
    if isinstance(value, bool):
        return str(value).lower()  # as JSON and YAML write it
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def identifier(row: RawRow, column: str, value: object) -> str:
    """Return a cell that identifies its row, as text.

    Raises:
        DataError: the value is not a whole number or a string of valid Unicode that is not blank.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        raise row.error(column, value, "a unique identifier")
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise row.error(column, value, "a string or a whole number")
    if not is_unicode(str(value)):
        raise row.error(column, value, "valid Unicode")
    return str(value)


def one_of(value: str, labels: Sequence[str]) -> str:
    """Return the end of an error about an unknown label: what was expected, with the nearest name."""
    near = difflib.get_close_matches(value.casefold(), labels, n=1, cutoff=0.5)
    hint = ""
    if near:
        hint = f" (did you mean {near[0]}?)"
    return f"one of {', '.join(labels)}{hint}"
