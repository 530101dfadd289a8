"""Rows of a user's table, with named columns."""

from __future__ import annotations

from collections.abc import Mapping

from explearn.core.words import Segment, lay_out, words_of
from explearn.text.mapping import MappedRow, Marks, cell_text, identifier, one_of
from explearn.text.marks import parse_marked, parse_mask, parse_spans, parse_word_list
from explearn.text.params import Columns
from explearn.text.rows import RawRow

INLINE_ANNOTATOR = "table"
"""Annotator of rationales in the table itself, of unknown kind; rationales of known kinds, or by several annotators per
text, go into rationale files."""


class CustomRows:
    """Rows of any table, by the columns that hold their parts.

    The words come from column `text`, `words` (a list, with blanks between) or, alone, `marked`. At most one of
    `marked`, `mask` and `spans` gives a rationale; an empty cell means that the row has none, and so does marked text
    without marks.

    Attributes:
        names: the columns.
        label_names: raw value -> label, where the table holds codes.
        known_labels: labels that a row may have; None: any.
    """

    known_labels: tuple[str, ...] | None = None

    def __init__(self, names: Columns, label_names: Mapping[str, str]) -> None:
        self.names = names
        self.label_names = label_names

    def map_row(self, row: RawRow) -> MappedRow:
        """Map a row; raise DataError, naming file, row and field, for one that cannot be used."""
        columns = self.names
        marked = self._marked(row)
        if columns.text:
            text = row.segment(columns.text)
        elif marked is None or columns.words:
            text = lay_out(self._words(row))
        else:
            text = marked[0]
        segments = [text]
        if columns.pair:
            segments.append(row.segment(columns.pair))
        words, pair, gaps = words_of(segments)

        mask = self._mask(row, len(words) + len(pair))
        if marked is not None:
            if marked[0].words != words:
                expected = "the words of the text, with marks around some of them"
                raise row.error(str(columns.marked), marked[0].text, expected)
            if any(marked[1]):
                mask = marked[1] + (False,) * len(pair)
        label = self._label(row)
        row_id = None
        if columns.id:
            row_id = identifier(row, *row.value(columns.id))
        marks: tuple[Marks, ...] = ()
        if mask is not None:
            marks = (Marks(INLINE_ANNOTATOR, "unknown", mask),)
        return MappedRow(words=words, pair=pair, gaps=gaps, label=label, id=row_id, marks=marks)

    def _words(self, row: RawRow) -> tuple[str, ...]:
        column, value = row.value(str(self.names.words))
        with row.located(column):
            words = parse_word_list(value)
        row.check_words(words, column)
        return words

    def _marked(self, row: RawRow) -> tuple[Segment, tuple[bool, ...]] | None:
        if not self.names.marked:
            return None
        column, value = row.value(self.names.marked)
        if value in (None, "") and (self.names.text or self.names.words):
            return None
        if not isinstance(value, str):
            raise row.error(column, value, "a text with [[marks]]")
        with row.located(column):
            return parse_marked(value)

    def _mask(self, row: RawRow, n_words: int) -> tuple[bool, ...] | None:
        name = self.names.mask or self.names.spans
        if not name:
            return None
        column, value = row.value(name)
        if value in (None, ""):
            return None
        parse = parse_mask if self.names.mask else parse_spans
        with row.located(column):
            return parse(value, n_words)

    def _label(self, row: RawRow) -> str:
        column, value = row.value(self.names.label)
        with row.located(column):
            raw = cell_text(value)
        if not raw:
            raise row.error(column, value, "a label")
        declared = row.class_names.get(column)
        if raw not in self.label_names and declared is not None and isinstance(value, int):
            if not 0 <= value < len(declared):
                raise row.error(column, value, f"0 to {len(declared) - 1}, the classes that the data set declares")
            raw = declared[value]
        label = self.label_names.get(raw, raw)
        if self.known_labels is not None and label not in self.known_labels:
            raise row.error(column, value, one_of(label, (*self.known_labels, *self.label_names)))
        return label
