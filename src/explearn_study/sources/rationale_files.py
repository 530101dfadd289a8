"""Readers of rationale files, which check them against the examples."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from itertools import chain, zip_longest
from pathlib import Path

from explearn.core.examples import Example, Rationale
from explearn.core.validation import Count, Shape
from explearn.text.marks import (
    parse_marked,
    parse_mask,
    parse_spans,
    parse_word_list,
)
from explearn.text.rows import RawRow, read_file
from explearn_study.sections import RationaleFile

Mask = tuple[bool, ...]

ESNLI_ANNOTATORS = (1, 2, 3)
"""Numbers at the end of e-SNLI's columns: one annotator for training pairs, three for others."""

ESNLI_HIGHLIGHTED = re.compile(r"\{\}|\d+(,\s*\d+)*")
"""Numbers of words with commas between, from 0; {} for none."""

IDS = {"eraser": "annotation_id", "esnli": "pairID"}
"""Format -> its column of ids, if that is not `id`."""

COLUMNS = (
    *("id", "annotator", "kind", "words", "rationale", "text", "pair", "spans", "evidences", *IDS.values()),
    *(f"Sentence{segment}_Highlighted_{number}" for segment in (1, 2) for number in ESNLI_ANNOTATORS),
    *("Sentence1", "Sentence2"),
)
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

    eraser: a line of ERASER's JSONL, `annotation_id` and `evidences`, whose token offsets are word offsets. esnli: a
    row of e-SNLI's CSV, `pairID` and `Sentence1_Highlighted_1` etc.; its annotators are numbered.

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
        column, value = row.value(IDS.get(spec.format, "id"))
        identifier = str(value)
        example = by_id.get(identifier)
        if example is None:
            if identifier in others:
                continue
            raise row.error(column, identifier, f"the id of a text of this task, such as {next(iter(by_id), '')!r}")
        if row.values.get("words") is not None:
            with row.located("words"):
                words = parse_word_list(row.values["words"])
            _check_words(row, "words", words, example.all_words, example.id)
        annotator = _stated(row, "annotator", spec.annotator)
        kind = _stated(row, "kind", spec.kind)
        for number, mask in READERS[spec.format](row, example).items():
            name = f"{annotator}{number}"
            first = seen.setdefault((identifier, name), row.number)
            if first != row.number:
                expected = f"one rationale of {name!r} for each text, but row {first} has one too"
                raise row.error(column, identifier, expected)
            with row.located():
                rationales.append(Rationale(example.id, name, kind, mask))  # type: ignore[arg-type]  # checks kind
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


def _check_words(row: RawRow, column: str, words: tuple[str, ...], expected: tuple[str, ...], identifier: str) -> None:
    for position, (got, want) in enumerate(zip(words, expected, strict=False)):
        if got != want:
            raise row.error(column, got, f"{want!r} as word {position}, as in text {identifier!r}")
    if len(words) != len(expected):
        raise row.error(column, f"{len(words)} words", f"the {len(expected)} of text {identifier!r}")


# ---- the formats: annotators' numbers, empty for the only one -> masks -----------------------------------------------


def _from_mask(row: RawRow, example: Example) -> dict[str, Mask]:
    column, value = row.value("rationale")
    with row.located(column):
        return {"": parse_mask(value, len(example.all_words))}


def _from_spans(row: RawRow, example: Example) -> dict[str, Mask]:
    column, value = row.value("spans")
    with row.located(column):
        return {"": parse_spans(value, len(example.all_words))}


def _from_marked(row: RawRow, example: Example) -> dict[str, Mask]:
    words: tuple[str, ...] = ()
    mask: Mask = ()
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
    _check_words(row, "text", words, example.all_words, example.id)
    return {"": mask}


class _Evidence(Shape):
    docid: str
    start_token: Count
    end_token: Count
    text: str


def _from_evidences(row: RawRow, example: Example) -> dict[str, Mask]:
    """Read ERASER's `evidences`: groups of spans, each [start_token, end_token) of the document `docid`."""
    one = '{"docid": TEXT, "start_token": NUMBER from 0, "end_token": NUMBER, "text": TEXT}'
    groups: list[list[_Evidence]] = row.read(
        list[list[_Evidence]], f"groups of evidence, [[{one}, ...], ...]", "evidences"
    )
    mask = [False] * len(example.all_words)
    for evidence in chain.from_iterable(groups):
        start = _segment_of(evidence, row, example) + evidence.start_token
        end = start + evidence.end_token - evidence.start_token
        mask[start:end] = [True] * (end - start)
    return {"": tuple(mask)}


def _segment_of(evidence: _Evidence, row: RawRow, example: Example) -> int:
    """Return the first word of the segment that has a piece of evidence at its offsets.

    Of a pair it is the one that `docid` names, as in ERASER's e-SNLI, or the only one that has the evidence there.
    """
    segments = {"_premise": (0, example.words), "_hypothesis": (len(example.words), example.pair)}
    named = [segment for end, segment in segments.items() if evidence.docid.endswith(end) and example.pair]
    span = slice(evidence.start_token, evidence.end_token)
    starts = []
    for start, words in named or segments.values():
        if words[span] and list(words[span]) == evidence.text.split():
            starts.append(start)
    if len(starts) != 1:
        where = f"words {span.start} to {span.stop} of one segment of text {example.id!r}"
        raise row.error("evidences", evidence.text, f"the {where}, whose words are ERASER's tokens")
    return starts[0]


def _from_esnli(row: RawRow, example: Example) -> dict[str, Mask]:
    """Read e-SNLI's numbers of highlighted words, by annotator."""
    segments = {"Sentence1": example.words, "Sentence2": example.pair}
    for column, words in segments.items():
        _check_words(row, column, row.segment(column).words, words, example.id)
    masks = {}
    for number in ESNLI_ANNOTATORS:
        columns = [f"{column}_Highlighted_{number}" for column in segments]
        if number > 1 and not row.values.get(columns[0]):
            continue
        mask: list[bool] = []
        for column, words in zip(columns, segments.values(), strict=True):
            mask += _highlighted(row, column, len(words))
        masks[f"-{number}"] = tuple(mask)
    return masks


def _highlighted(row: RawRow, column: str, count: int) -> list[bool]:
    """Return the mask of a segment of `count` words."""
    text = str(row.value(column)[1])
    if not ESNLI_HIGHLIGHTED.fullmatch(text):
        raise row.error(column, text, "numbers of words with commas between, from 0, or {}")
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    if max(numbers, default=0) >= count:
        raise row.error(column, text, f"numbers below {count}, the number of words")
    return [number in numbers for number in range(count)]


READERS: dict[str, Callable[[RawRow, Example], dict[str, Mask]]] = {
    "mask": _from_mask,
    "marked": _from_marked,
    "spans": _from_spans,
    "eraser": _from_evidences,
    "esnli": _from_esnli,
}
