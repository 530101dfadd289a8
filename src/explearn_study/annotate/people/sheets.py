"""Sheets for people: writing a page for the browser or a table for a spreadsheet, and reading it back.

There are four kinds. `check`: are a model's marks right? `mark`: mark a text. `adjudicate`: decide where annotators
differ. `predict`: predict the model's label (`explearn_study.annotate.people.simulation`). Each row starts with marks
(none in `mark`); only rows that a person changes or confirms are read back.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from markupsafe import Markup

from explearn.core.documents import text_digest
from explearn.core.errors import DataError, ParamsError
from explearn.core.examples import Example, Rationale
from explearn.core.words import lay_out
from explearn.core.writing import write_text
from explearn.show.display import LOOK
from explearn.show.templates import html_templates
from explearn.text.marks import parse_marked, parse_mask, spans_from_mask
from explearn.text.rows import RawRow, read_file
from explearn_study.annotate.task import VERDICTS, Verdict

MarkingKind = Literal["check", "mark", "adjudicate"]
SHEET_KINDS: tuple[MarkingKind, ...] = get_args(MarkingKind)
SheetKind = MarkingKind | Literal["predict"]

COLUMNS = ("sheet", "id", "label", "text", "verdict", "comment", "annotator", "rationale", "shown", "reason")
"""Columns of the table, and of the file that the page saves. People fill in verdict (accept or reject; in `predict` the
model's label), comment and annotator, and mark words in text with [[double brackets]]; rationale, 0 or 1 per word,
overrides the brackets if it is filled in; shown is the row's initial state."""

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet treats a cell that starts with one of these as a formula; a leading apostrophe makes it text."""

Mask = tuple[bool, ...]


OPEN = "[["
CLOSE = "]]"


def format_marked(words: Sequence[str], mask: Sequence[bool], joined: Collection[int] = ()) -> str:
    """Return a text with the marked words in double square brackets, neighbours together.

    `parse_marked` reads it back.

    Args:
        words: words of the text.
        mask: which of them are marked.
        joined: indices of words that directly follow the previous word.

    Raises:
        DataError: a word itself contains `[[` or `]]`.
    """
    for word in words:
        if OPEN in word or CLOSE in word:
            raise DataError(f"got the word {word!r}; expected none with '[[' or ']]' in it, which mean marks")
    pieces = list(words)
    for start, end in spans_from_mask(mask):
        pieces[start] = OPEN + pieces[start]
        pieces[end - 1] += CLOSE
    return lay_out(pieces, joined).text


@dataclass(frozen=True, slots=True)
class SheetRow:
    """A text with its initial marks.

    Attributes:
        example: the text.
        mask: its initial marks.
        reason: the model's reason for them.
        opinions: annotator -> marks, for adjudication.
    """

    example: Example
    mask: Mask
    reason: str = ""
    opinions: Mapping[str, Mask] = field(default_factory=dict)


@dataclass(slots=True)
class FilledSheet:
    """A sheet that people have filled in.

    Attributes:
        verdicts: verdicts on a model's marks.
        rationales: people's marks, including corrections of a model's marks.
        decisions: adjudicated rationales.
        untouched: number of rows without any input.
    """

    verdicts: list[Verdict]
    rationales: list[Rationale]
    decisions: list[Rationale]
    untouched: int = 0


def write_new_sheet(
    path: Path,
    kind: SheetKind,
    title: str,
    rows: Sequence[SheetRow],
    labels: Sequence[str] = (),
    guideline: Sequence[str] = (),
) -> None:
    """Write a page (.html) or a table (.csv).

    Args:
        path: the file.
        kind: kind of sheet.
        title: title of the page.
        rows: the texts.
        labels: choices in `predict`.
        guideline: lines on the page that explain texts and labels.

    Raises:
        ParamsError: another file extension, or `path` would replace another sheet or a filled-in one.
    """
    if path.suffix == ".html":
        page = html_templates("explearn_study.annotate.people").get_template("sheet.html.j2")
        shown = {"rows": rows, "labels": labels, "guideline": guideline}
        text = page.render(kind=kind, title=title, **shown, columns=COLUMNS, digits=_digits, look=Markup(LOOK))
    elif path.suffix == ".csv":
        text = _table(kind, rows)
    else:
        raise ParamsError(f"--out: got {str(path)!r}; expected a file ending in .html or .csv")
    # Another sheet of ours stays, too: people may have copies of it.
    write_text(path, text, f"this sheet ({text_digest(text)[:12]})")


def _digits(mask: Mask) -> str:
    return " ".join("1" if marked else "0" for marked in mask)


def _table(kind: SheetKind, rows: Sequence[SheetRow]) -> str:
    # With a byte order mark Excel reads UTF-8.
    written = io.StringIO("\ufeff")
    written.seek(0, io.SEEK_END)
    table = csv.DictWriter(written, COLUMNS, restval="")
    table.writeheader()
    for row in rows:
        cells = {"sheet": kind, "id": row.example.id, "shown": _digits(row.mask)}
        words = row.example.all_words
        try:
            cells["text"] = format_marked(words, row.mask, row.example.joined)
        except DataError:  # a word contains brackets
            cells["text"] = lay_out(words, row.example.joined).text
            cells["rationale"] = _digits(row.mask)
        if kind != "predict":
            cells["label"] = row.example.label
        opinions = "; ".join(f"{name}: {_digits(mask)}" for name, mask in row.opinions.items())
        cells["reason"] = row.reason or opinions
        table.writerow({name: _guarded(cell) for name, cell in cells.items()})
    return written.getvalue()


def _guarded(cell: str) -> str:
    """Return a cell that a spreadsheet does not treat as a formula."""
    return f"'{cell}" if cell.startswith(FORMULA_STARTS) else cell


def _unguarded(cell: str) -> str:
    if cell.startswith("'") and cell[1:].startswith(FORMULA_STARTS):
        return cell[1:]
    return cell


def read_sheet(path: Path, examples: Iterable[Example], annotator: str | None) -> FilledSheet:
    """Read a filled-in sheet: the table, or the file saved by the page.

    Args:
        path: a .csv file.
        examples: the task's examples.
        annotator: annotator of rows without a name.

    Raises:
        DataError: an unknown text or verdict, words or marks that do not match the text, a row without annotator, or a
            text repeated by one annotator; names file, row and field.
    """
    filled = FilledSheet([], [], [])
    seen: dict[tuple[str, str], int] = {}
    for kind, example, row in sheet_rows(path, SHEET_KINDS, examples):
        verdict = cell_of(row, "verdict").strip().lower()
        if verdict not in ("", *VERDICTS):
            raise row.error("verdict", verdict, f"{', '.join(VERDICTS)}, or nothing")
        shown = read_mask(row, "shown", example)
        mask = _marks(row, example)
        if mask == shown and not verdict:
            filled.untouched += 1
            continue
        name = cell_of(row, "annotator").strip() or annotator
        if not name:
            raise row.error("annotator", "", "a name, in the column or with --annotator")
        first = seen.setdefault((example.id, name), row.number)
        if first != row.number:
            raise row.error("id", example.id, f"each text once for {name!r}, but row {first} has it too")
        if kind == "check" and verdict and mask == shown:
            comment = cell_of(row, "comment")
            filled.verdicts.append(Verdict(example.id, name, VERDICTS[VERDICTS.index(verdict)], shown, comment))
        elif verdict == "reject":
            raise row.error("verdict", verdict, "accept, or nothing, if marks are changed")
        else:
            marks = filled.decisions if kind == "adjudicate" else filled.rationales
            with row.located():
                marks.append(Rationale(example.id, name, "human", mask))
    return filled


def sheet_rows(
    path: Path, kinds: Collection[str], examples: Iterable[Example], what: str = "of this task"
) -> Iterator[tuple[str, Example, RawRow]]:
    """Yield the kind, text and row of each row of a sheet.

    Args:
        path: the sheet.
        kinds: kinds of sheets that may be there.
        examples: texts that may be there.
        what: what these are, for errors.

    Raises:
        DataError: another kind, or another text; names file, row and field.
    """
    by_id = {example.id: example for example in examples}
    for row in read_file(path, COLUMNS):
        kind = row.value("sheet")[1]
        if kind not in kinds:
            raise row.error("sheet", kind, " or ".join(kinds))
        identifier = row.value("id")[1]
        example = by_id.get(cell_of(row, "id")) or by_id.get(str(identifier))
        if example is None:
            raise row.error("id", identifier, f"the id of a text {what}")
        yield str(kind), example, row


def cell_of(row: RawRow, column: str) -> str:
    """Return a cell as text, without the apostrophe that prevents a formula; "" for None."""
    value = row.values.get(column)
    if value is None:
        return ""
    if not isinstance(value, (str, int)):
        raise row.error(column, value, "a text")
    return _unguarded(str(value))


def read_mask(row: RawRow, column: str, example: Example) -> Mask:
    """Parse a cell of 0 and 1, one per word of the example."""
    value = row.values.get(column)
    with row.located(column):
        return parse_mask(value if isinstance(value, list) else cell_of(row, column), len(example.all_words))


def _marks(row: RawRow, example: Example) -> Mask:
    if isinstance(row.values.get("rationale"), list) or cell_of(row, "rationale").strip():
        return read_mask(row, "rationale", example)
    column, raw = row.value("text")
    if not isinstance(raw, str):
        raise row.error(column, raw, "a text with [[marks]]")
    for text in (raw, _unguarded(raw)):
        with row.located("text"):
            segment, mask = parse_marked(text, lay_out(example.all_words, example.joined))
        if segment.words == example.all_words:
            return mask
    raise row.error("text", segment.text, f"the {len(example.all_words)} words of text {example.id!r}")
