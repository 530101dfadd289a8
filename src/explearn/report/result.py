"""What a command found: it tells itself in sentences, and saves itself as a page and as data."""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic_core import to_jsonable_python

from explearn.core.documents import checked_path
from explearn.core.extras import need
from explearn.core.writing import write_json, write_text
from explearn.report.page import draw
from explearn.show.blocks import Block, Table, columns
from explearn.show.html_page import render_html
from explearn.show.printed import Printed
from explearn.subject.manifest import Origin, check_page

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Result(Printed, ABC):
    """Base of results that save themselves, dataclasses.

    Attributes:
        name: name of the command.
        saved: names of the attributes that are saved as JSON.
        table: the one of them that holds the rows of its table; the files beside the page are named after it.
        row: class of these rows, a dataclass.
        origin: where it comes from.
        page: path of the page; None if none was written.
    """

    name: ClassVar[str]
    saved: ClassVar[Sequence[str]]
    table: ClassVar[str]
    row: ClassVar[type]

    origin: Origin
    page: Path | None = None

    @abstractmethod
    def blocks(self) -> list[Block]:
        """Return its page, but for how it was made."""

    def values(self) -> dict[str, Any]:
        """Return what is saved: name -> value."""
        return {name: getattr(self, name) for name in self.saved}

    def next_steps(self) -> str:
        """Return how to go on in Python."""
        return f".{self.table} are all, .to_frame() a table of them; .save('{self.name}.html') writes the page."

    def folders(self) -> list[str]:
        """Return the names of folders beside the page that belong to it."""
        return []

    def to_frame(self) -> pd.DataFrame:
        """Return the rows of its table as a frame.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return frame_of(getattr(self, self.table), self.row)

    @classmethod
    def check_place(cls, page: Path) -> None:
        """Raise what `save` would raise if a file cannot be written, without writing one.

        Args:
            page: the page.
        """
        check_page(page, cls._what(), cls._beside(page))

    @classmethod
    def _what(cls) -> str:
        return f"an output of explearn {cls.name}"

    @classmethod
    def _beside(cls, page: Path) -> list[Path]:
        """Return the files with its table and its values."""
        return [page.with_suffix(f".{cls.table}{suffix}") for suffix in (".csv", ".json")]

    def save(self, path: str | Path) -> Self:
        """Write the page, and beside it its manifest, its table as CSV and its values as JSON.

        Args:
            path: the page; with page.html go page.json (the manifest, for `explearn verify`), page.findings.csv and
                page.findings.json.

        Returns:
            This result, with the path of its page.

        Raises:
            ParamsError: a file that is not an earlier one of the same kind, or was changed, would be replaced.
            DataError: a file cannot be written.
        """
        page = Path(checked_path(path, "path"))
        self.check_place(page)
        what = self._what()
        made = self.origin.facts(page)
        blocks = [*self.blocks(), Table(columns(["", ""]), list(made.items()))]
        write_text(page, render_html(blocks, draw(blocks), f"Kinds of {self.table}"), what)
        document = to_jsonable_python(self.values())
        rows = io.StringIO()
        writer = csv.DictWriter(rows, [field.name for field in fields(self.row)])
        writer.writeheader()
        writer.writerows(document[self.table])
        beside = self._beside(page)
        write_text(beside[0], rows.getvalue(), what)
        write_json(beside[1], document, what)
        verdict = " ".join(self.sentences())
        names = [*(file.name for file in beside), *self.folders()]
        self.origin.write_manifest(page, self.name, made, what, names, verdict=verdict)
        return replace(self, page=page)


def frame_of(rows: Sequence[Any], row: type) -> pd.DataFrame:
    """Return a frame with a row for each dataclass of one class.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    need("pandas", extra="pipeline", what="a frame")
    import pandas as pd

    return pd.DataFrame([asdict(record) for record in rows], columns=[field.name for field in fields(row)])
