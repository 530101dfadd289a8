"""The history of a watch: a Parquet file with a row for each day and element, a row group for each day."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from explearn.auditing.tallies import Lexicon, Tally
from explearn.core.errors import ParamsError
from explearn.core.parquet import make_schema, open_parquet, parquet_writer, read_group, read_metadata

WHAT = "a history of explearn watch"

MOST_DAYS = 14
"""A change must have begun in so many last days to count."""

SCHEMA = make_schema(
    day=pa.string(),
    about=pa.string(),
    element=pa.string(),
    kind=pa.string(),
    target=pa.string(),
    group=pa.string(),
    texts=pa.int64(),
    value=pa.float64(),
    corrected=pa.float64(),
    changed=pa.bool_(),
    counts=pa.list_(pa.int64()),
)
"""A row a day and element; `counts`: by weight, of the day's texts with the element; of an answer, of those with it."""

_DAY = pa.schema([SCHEMA.field("day")])

Key = tuple[str, str, str, str]
"""What a value is about, element, class and group."""


class History:
    """The earlier days of a watch.

    Args:
        path: the file. None, or a file that is not there: no earlier day.
        reference: hash of the reference, and settings on which the counts depend.
        day: name of today; if it is the last day, its rows are replaced.

    Attributes:
        days: names of the earlier days.

    Raises:
        DataError: the file is damaged.
        ParamsError: it has another reference, or today is an earlier day.
    """

    def __init__(self, path: Path | None, reference: Mapping[str, Any], day: str) -> None:
        self.path = path
        self.days: list[str] = []
        self._reference = dict(reference)
        self._day = day
        if path is None or not path.exists():
            return
        if read_metadata(path) != self._reference:
            raise ParamsError(
                f"{path}: is the history of another reference, or of other settings; expected the same ones, or "
                "another file"
            )
        with open_parquet(path, SCHEMA) as file:
            for group in range(file.num_row_groups):
                self.days.append(str(read_group(file, group, _DAY, path)["day"][0]))
        if self.days[-1] == day:
            self.days.pop()
        if day in self.days:
            raise ParamsError(f"day: got {day!r}, after which the history has other days; expected a new name")

    def tallies(self, lexicon: Lexicon) -> list[Tally]:
        """Return the last days before today, at most MOST_DAYS less one."""
        tallies = []
        for table in self._tables(max(0, len(self.days) - MOST_DAYS + 1)):
            tally = Tally(lexicon)
            for row in table.to_pylist():
                stratum = row["target"], row["group"]
                if row["about"] == "answers":
                    tally.texts[stratum] = row["texts"]
                if row["about"] == "reasons":
                    number = lexicon.number((row["kind"], row["element"]))
                    tally.of(stratum)[number] = row["counts"]
            tallies.append(tally)
        return tallies

    def values(self, keys: Collection[Key]) -> dict[Key, list[float]]:
        """Return what each key was on each of the earlier days, 0 where the day has none."""
        values = {key: [0.0] * len(self.days) for key in keys}
        elements = pa.array([element for _, element, _, _ in keys], pa.string())
        for number, table in enumerate(self._tables(0)):
            for row in table.filter(pc.is_in(table["element"], elements)).to_pylist():
                key = row["about"], row["element"], row["target"], row["group"]
                if key in values:
                    values[key][number] = row["value"]
        return values

    def _tables(self, start: int) -> Iterator[pa.Table]:
        """Yield the rows of the earlier days from a number on."""
        if self.path is None or not self.days:
            return
        with open_parquet(self.path, SCHEMA) as file:
            for group in range(start, len(self.days)):
                yield read_group(file, group, SCHEMA, self.path)

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the history with the rows of today; the file is replaced once it is complete."""
        if self.path is None:
            return
        table = pa.Table.from_pylist([{"day": self._day, **row} for row in rows], schema=SCHEMA)
        with parquet_writer(self.path, SCHEMA, self._reference, WHAT) as writer:
            for earlier in self._tables(0):
                writer.write_table(earlier, row_group_size=max(1, earlier.num_rows))
            writer.write_table(table, row_group_size=max(1, table.num_rows))
