"""The history of a watch: a Parquet file with a row for each day and figure, a row group for each day."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from explearn.auditing.changes import Figure, JudgedDays
from explearn.auditing.tallies import LEVELS, Lexicon, Tally
from explearn.core.arrays import Counts
from explearn.core.errors import ParamsError
from explearn.core.parquet import make_schema, open_parquet, parquet_writer, read_group, read_metadata
from explearn.metrics.betting import means

WHAT = "a history of explearn watch"

MOST_DAYS = 14
"""A change must have begun in so many last days to count."""

SCHEMA = make_schema(
    day=pa.string(),
    **dict.fromkeys(Figure._fields, pa.string()),
    texts=pa.int64(),
    value=pa.float64(),
    corrected=pa.float64(),
    changed=pa.bool_(),
    counts=pa.list_(pa.int32()),
)
"""`texts`, `value`: of the day alone; `counts`: of a reason, its texts by weight, from the least above 0 on."""

_DAY = pa.schema([SCHEMA.field("day")])


class History:
    """The earlier days of a watch.

    Args:
        path: the file. None, or a file that is not there: no earlier day.
        settings: the hash of the reference, and what else the counts depend on.
        day: name of today; if it is the last day, its rows are replaced.

    Attributes:
        days: names of the days, today last.

    Raises:
        DataError: the file is damaged.
        ParamsError: it has another reference, or today is an earlier day.
    """

    def __init__(self, path: Path | None, settings: Mapping[str, Any], day: str) -> None:
        self.path = path
        self.days: list[str] = []
        self._settings = dict(settings)
        if path is not None and path.exists():
            if read_metadata(path) != self._settings:
                raise ParamsError(
                    f"{path}: is the history of another reference, or of other settings; use another file"
                )
            with open_parquet(path, SCHEMA) as file:
                for group in range(file.num_row_groups):
                    self.days.append(str(read_group(file, group, _DAY, path)["day"][0]))
        if day in self.days[:-1]:
            raise ParamsError(f"day: got {day!r}, after which the history has other days; expected a new name")
        if self.days[-1:] != [day]:
            self.days.append(day)

    def tallies(self, lexicon: Lexicon) -> list[Tally]:
        """Return the last days before today, at most MOST_DAYS less one."""
        tallies = []
        for table in self._tables(max(0, len(self.days) - MOST_DAYS)):
            tally = Tally(lexicon)
            for row in table.to_pylist():
                stratum = row["target"], row["group"]
                if row["about"] == "answers":
                    tally.texts[stratum] = row["texts"]
                if row["about"] == "reasons":
                    number = lexicon.number((row["kind"], row["element"]))
                    tally.of(stratum)[number] = [row["texts"] - sum(row["counts"]), *row["counts"]]
            tallies.append(tally)
        return tallies

    def values(self, figures: Collection[Figure]) -> dict[Figure, list[float]]:
        """Return what each figure was on each of the earlier days, 0 where the day has none."""
        values = {figure: [0.0] * (len(self.days) - 1) for figure in figures}
        elements = pa.array([figure.element for figure in figures], pa.string())
        for number, table in enumerate(self._tables(0)):
            for row in table.filter(pc.is_in(table["element"], elements)).to_pylist():
                figure = Figure(*(row[name] for name in Figure._fields))
                if figure in values:
                    values[figure][number] = row["value"]
        return values

    def _tables(self, start: int) -> Iterator[pa.Table]:
        """Yield the rows of the earlier days from a number on."""
        if self.path is None or len(self.days) == 1:
            return
        with open_parquet(self.path, SCHEMA) as file:
            for group in range(start, len(self.days) - 1):
                yield read_group(file, group, SCHEMA, self.path)

    def add(self, judged: JudgedDays, today: Tally) -> None:
        """Write the history with today's rows, those that any text has; the file is replaced once it is complete."""
        if self.path is None:
            return
        # By columns, since rows of a million texts would take more memory than their counts.
        having = [_texts(figure, judged.today[row], today) for row, figure in enumerate(judged.figures)]
        rows = np.flatnonzero(having)
        figures = [judged.figures[row] for row in rows.tolist()]
        is_reason = np.array([figure.about == "reasons" for figure in figures])
        weights = judged.today[rows[is_reason], 1:]
        starts = np.append(0, np.cumsum(is_reason * LEVELS))
        columns = {
            "day": [self.days[-1]] * len(rows),
            **dict(zip(Figure._fields, zip(*figures, strict=True), strict=True)),
            "texts": np.array(having)[rows],
            "value": means(judged.today[rows]),
            "corrected": judged.corrected[rows],
            "changed": judged.changed[rows],
            "counts": pa.ListArray.from_arrays(pa.array(starts, pa.int32()), weights.ravel()),
        }
        arrays = [pa.array(columns[field.name], field.type) for field in SCHEMA]
        table = pa.Table.from_arrays(arrays, schema=SCHEMA)
        with parquet_writer(self.path, SCHEMA, self._settings, WHAT) as writer:
            for day in [*self._tables(0), table]:
                writer.write_table(day, row_group_size=max(1, day.num_rows))


def _texts(figure: Figure, counts: Counts, today: Tally) -> int:
    """Return the number of today's texts that have an element, or an answer."""
    if figure.about != "reasons":
        return int(counts[-1])
    number = today.lexicon.numbers[figure.kind, figure.element]
    return int(today.of((figure.target, figure.group))[number].sum())
