"""Origin of an audit's result, and the base class that prints and saves results."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from pydantic_core import to_jsonable_python

from explearn.comparison.provenance import check_page, manifest_of, page_facts
from explearn.core.compute import ComputeOptions
from explearn.core.escape import printable
from explearn.core.writing import write_json, write_text
from explearn.predictors.predictor import Predictor
from explearn.report.manifest import part, write_manifest
from explearn.report.page import draw
from explearn.show.blocks import Block, plain
from explearn.show.html_page import render_html


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Where a result comes from.

    Attributes:
        call: the function that made it.
        classifier: the classifier, as it was given.
        model: the predictor that it stands for.
        compute: where and how it was computed.
        files: files of texts.
        request: the arguments that the figures depend on.
    """

    call: str
    classifier: object
    model: Predictor
    compute: ComputeOptions
    files: Sequence[object]
    request: Mapping[str, Any]


class Pages(NamedTuple):
    """How a result is told: in sentences, with marks for bold words, and in blocks, from how the page was made."""

    sentences: Callable[[Any], Sequence[str]]
    blocks: Callable[[Any, Mapping[str, str]], Sequence[Block]]


class Result:
    """Base of results, dataclasses with `findings`, that print and save themselves.

    Attributes:
        row: class of a finding.
        origin: where it comes from.
        pages: how it is told.
        page: path of the page; None if none was written.
    """

    __slots__ = ()
    row: ClassVar[type]
    origin: Origin
    pages: Pages
    page: Path | None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def sentences(self) -> list[str]:
        """Return the result in plain sentences."""
        return [plain(sentence) for sentence in self.pages.sentences(self)]

    def print(self) -> None:
        """Print the sentences."""
        for sentence in self.sentences():
            print(printable(sentence))

    def save(self, path: str | Path) -> Self:
        """Write the page, and beside it its manifest and the findings as CSV and JSON.

        Args:
            path: the page; with page.html go page.json (the manifest, for `explearn verify`), page.findings.csv and
                page.findings.json.

        Returns:
            This result, with the path of its page.

        Raises:
            ParamsError: a file of another kind would be replaced.
            DataError: a file cannot be written.
        """
        page = Path(path)
        check_page(page)
        origin = self.origin
        made = page_facts(page, origin.model, origin.request, origin.call)
        blocks = self.pages.blocks(self, made)
        write_text(page, render_html(blocks, draw(blocks), "Kinds of findings"))
        document = {}
        for field in fields(self):  # type: ignore[arg-type]
            if field.repr and field.name != "page":  # not example texts, nor where it comes from
                document[field.name] = to_jsonable_python(getattr(self, field.name))
        table = io.StringIO()
        writer = csv.DictWriter(table, [field.name for field in fields(self.row)])
        writer.writeheader()
        writer.writerows(document["findings"])
        beside = [page.with_suffix(".findings.csv"), page.with_suffix(".findings.json")]
        write_text(beside[0], table.getvalue())
        write_json(beside[1], document)
        manifest = manifest_of(
            page, origin.classifier, origin.model, origin.compute, origin.files, "audit", origin.request, made
        )
        manifest["parts"]["page"] = part(page.parent, [page.name, *(file.name for file in beside)])
        write_manifest(page, {**manifest, "verdict": " ".join(self.sentences())})
        return replace(self, page=page)  # type: ignore[type-var]
