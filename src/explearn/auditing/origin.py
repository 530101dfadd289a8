"""Where an audit comes from, and its page with all that goes beside it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from explearn.comparison.provenance import check_manifest_place, manifest_of, page_facts
from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.errors import DataError
from explearn.core.writing import check_own, is_page, write_json, write_text
from explearn.predictors.predictor import Predictor
from explearn.report.manifest import part, write_manifest
from explearn.report.page import draw
from explearn.show.blocks import Block
from explearn.show.html_page import render_html

SavedT = TypeVar("SavedT", bound=Any)


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


def check_page(path: Path) -> None:
    """Raise an error if a file of another kind would be replaced."""
    check_own(path, is_page, "a page of Explearn")
    check_manifest_place(path)
    check_own(path.with_suffix(".findings.json"), _has_findings, "a file of findings")
    check_own(path.with_suffix(".findings.csv"), _starts_with_element, "a table of findings")


def _has_findings(path: Path) -> bool:
    try:
        document = read_json(path)
    except DataError:
        return False
    return isinstance(document, dict) and "findings" in document


def _starts_with_element(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(8) == b"element,"


def write_page(
    result: SavedT,
    path: Path,
    make_blocks: Callable[[SavedT, Mapping[str, str]], Sequence[Block]],
    document: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    verdict: str,
) -> SavedT:
    """Write the page of a result, its table as CSV, all of it as JSON, and the manifest.

    Args:
        result: has `origin` and `page`.
        path: the page.
        make_blocks: returns the blocks of the page, from the result and the facts about how it was made.
        document: everything as JSON.
        rows: the rows of the table.
        verdict: the page's first sentences.

    Returns:
        The result with the path of its page.
    """
    check_page(path)
    origin: Origin = result.origin
    made = page_facts(path, origin.model, origin.request, origin.call)
    blocks = list(make_blocks(result, made))
    write_text(path, render_html(blocks, draw(blocks), "Kinds of findings"))
    table = io.StringIO()
    writer = csv.DictWriter(table, list(rows[0]) if rows else ["element"])
    writer.writeheader()
    writer.writerows(rows)
    beside = [path.with_suffix(".findings.csv"), path.with_suffix(".findings.json")]
    write_text(beside[0], table.getvalue())
    write_json(beside[1], document)
    manifest = manifest_of(
        path, origin.classifier, origin.model, origin.compute, origin.files, "audit", origin.request, made
    )
    manifest["parts"]["page"] = part(path.parent, [path.name, *(file.name for file in beside)])
    write_manifest(path, {**manifest, "verdict": verdict})
    return replace(result, page=path)
