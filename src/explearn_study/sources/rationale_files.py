"""Readers of rationale files, which check them against the examples."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import zip_longest
from pathlib import Path

from explearn.core.examples import Example, Rationale
from explearn.text.marks import (
    parse_marked,
    parse_mask,
    parse_spans,
    parse_word_list,
)
from explearn.text.rows import RawRow, read_file
from explearn_study.sections import RationaleFile

COLUMNS = ("id", "annotator", "kind", "words", "rationale", "text", "pair", "spans")
"""Columns of a file of rationales that are read."""


def import_rationales(
    path: str | Path,
    spec: RationaleFile,
    examples: Iterable[Example],
    all_ids: Collection[str] | None = None,
) -> list[Rationale]:
    """Read a file of rationales (JSON Lines, CSV or Parquet) and check it against the examples.

    Columns: `id`; `annotator` and `kind`, unless `spec` gives them; then, by `spec.format`, mask: `rationale` (0/1 per
    word); marked: `text` with [[marks]] (and `pair`, for pairs); spans: `spans` of [start, end) word offsets. If there
    is a column `words`, they must be the example's (for a pair: those of both segments). Other columns are not read. A
    text without marks or an empty list of spans means that the annotator found no evidence.

    Args:
        path: the file.
        spec: its format, and the annotator and kind for files without those columns.
        examples: all of the task's examples.
        all_ids: ids of the source's texts left out by subsampling; their rationales are skipped. None: no ids.

    Returns:
        The rationales in the file's order.

    Raises:
        DataError: an unknown id, words that differ from the example's, a mask of the wrong length or with values other
            than 0 and 1, or a repeated (id, annotator); names file, row and field.
    """
    by_id = {example.id: example for example in examples}
    others = frozenset(all_ids or ())
    rationales: list[Rationale] = []
    seen: dict[tuple[str, str], int] = {}
    for row in read_file(path, COLUMNS):
        column, value = row.value("id")
        identifier = str(value)
        annotator = _stated(row, "annotator", spec.annotator)
        first = seen.setdefault((identifier, annotator), row.number)
        if first != row.number:
            raise row.error(
                column, identifier, f"one rationale of {annotator!r} for each text, but row {first} has one too"
            )
        example = by_id.get(identifier)
        if example is None:
            if identifier in others:
                continue
            raise row.error(column, identifier, "the id of a text of this task")
        if row.values.get("words") is not None:
            with row.located("words"):
                words = parse_word_list(row.values["words"])
            _check_words(row, "words", words, example)
        if spec.format == "marked":
            mask = _from_marked(row, example)
        elif spec.format == "mask":
            column, value = row.value("rationale")
            with row.located(column):
                mask = parse_mask(value, len(example.all_words))
        else:
            column, value = row.value("spans")
            with row.located(column):
                mask = parse_spans(value, len(example.all_words))
        kind = _stated(row, "kind", spec.kind)
        with row.located():
            rationales.append(Rationale(example.id, annotator, kind, mask))  # type: ignore[arg-type]  # checks kind
    return rationales


def _stated(row: RawRow, column: str, default: str | None) -> str:
    """Return the row's value of a column, or the default for the file."""
    value = row.values.get(column)
    if value is None or value == "":
        value = default
    if value is None:
        raise row.error(column, value, f"a column {column!r}, or {column} in the parameters of this file")
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise row.error(column, value, "a text")
    return str(value)


def _check_words(row: RawRow, column: str, words: tuple[str, ...], example: Example) -> None:
    expected = example.all_words
    for position, (got, want) in enumerate(zip(words, expected, strict=False)):
        if got != want:
            raise row.error(column, got, f"{want!r} as word {position}, as in text {example.id!r}")
    if len(words) != len(expected):
        raise row.error(column, f"{len(words)} words", f"the {len(expected)} of text {example.id!r}")


def _from_marked(row: RawRow, example: Example) -> tuple[bool, ...]:
    words: tuple[str, ...] = ()
    mask: tuple[bool, ...] = ()
    for column, segment in zip_longest(("text", "pair"), example.segments):
        if column == "pair" and row.values.get("pair") in (None, ""):
            continue
        value = row.value(column)[1]
        if not isinstance(value, str):
            raise row.error(column, value, "a text with [[marks]]")
        with row.located(column):
            read, more = parse_marked(value, segment)
        words += read.words
        mask += more
    _check_words(row, "text", words, example)
    return mask
