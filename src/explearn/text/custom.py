"""The adapter for a user's own table: the columns are named in the parameters."""

from __future__ import annotations

from collections.abc import Mapping

from explearn.core.errors import ParamsError
from explearn.core.escape import is_unicode
from explearn.core.records import Split
from explearn.core.words import Segment, lay_out, words_of
from explearn.text.mapping import OWN_NAMES, HubDefault, MappedRow, Marks, identifier, one_of
from explearn.text.marks import parse_marked, parse_mask, parse_spans, parse_word_list
from explearn.text.params import SourceParams
from explearn.text.rows import RawRow

INLINE_ANNOTATOR = "table"
"""Annotator of the rationales in the table itself. They count as human; rationales of other kinds, or of several
annotators per text, go into rationale files."""


class CustomAdapter:
    """Rows of any table, by the columns of `SourceParams.columns`.

    The words come from column `text`, `words` (a list, with blanks between) or, alone, `marked`. At most one of
    `marked`, `mask` and `spans` gives a rationale; an empty cell means that the row has none, and so does marked text
    without marks.
    Raises ParamsError when the columns contradict each other.
    """

    hub: HubDefault | None = None
    file_splits: Mapping[Split, tuple[str, ...]] = OWN_NAMES
    splits_in_rows = False

    def __init__(self, task: str, source: SourceParams) -> None:
        self.names = columns = source.columns
        where = f"sources.{task}"
        if columns.text and columns.words:
            raise ParamsError(f"{where}.columns: got both text and words; expected one of them")
        if not (columns.text or columns.words or columns.marked):
            raise ParamsError(
                f"{where}.columns: got neither text nor words; expected the name of the column with the text"
            )
        marks = [name for name in ("marked", "mask", "spans") if getattr(columns, name)]
        if len(marks) > 1:
            raise ParamsError(
                f"{where}.columns: got {', '.join(marks)}; expected at most one of marked, mask and spans"
            )
        self.labels: tuple[str, ...] | None = tuple(source.labels) if source.labels is not None else None
        if self.labels is not None and (len(set(self.labels)) != len(self.labels) or len(self.labels) < 2):
            raise ParamsError(f"{where}.labels: got {', '.join(self.labels)}; expected two or more different labels")
        self.label_names = source.label_names
        if self.labels is not None:
            for raw, label in self.label_names.items():
                if label not in self.labels:
                    raise ParamsError(
                        f"{where}.label_names.{raw}: got {label!r}; expected {one_of(label, self.labels)}"
                    )

    @property
    def columns(self) -> list[str]:
        return [name for name in self.names.model_dump().values() if name is not None]

    def map_row(self, row: RawRow) -> MappedRow:
        columns = self.names
        segments = [Segment.of(row.text(columns.pair))] if columns.pair else []
        marked = self._marked(row)
        if marked is not None and not (columns.text or columns.words):
            text = marked[0]
        else:
            text = Segment.of(row.text(columns.text)) if columns.text else lay_out(self._words(row))
        if marked is not None and marked[0].words != text.words:
            raise row.error(
                str(columns.marked), marked[0].text, "the words of the text, with marks around some of them"
            )
        words, pair, joined = words_of([text, *segments])
        mask = self._mask(row, len(words) + len(pair))
        if marked is not None and any(marked[1]):
            mask = marked[1] + (False,) * len(pair)
        return MappedRow(
            words=words,
            pair=pair,
            joined=joined,
            label=self._label(row),
            id=identifier(row, *row.value(columns.id)) if columns.id else None,
            marks=() if mask is None else (Marks(INLINE_ANNOTATOR, "human", mask),),
        )

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
            text, mask = parse_marked(value)
        row.check_words(text.words, column)
        return text, mask

    def _mask(self, row: RawRow, n_words: int) -> tuple[bool, ...] | None:
        name = self.names.mask or self.names.spans
        if not name:
            return None
        column, value = row.value(name)
        if value in (None, ""):
            return None
        with row.located(column):
            return parse_mask(value, n_words) if self.names.mask else parse_spans(value, n_words)

    def _label(self, row: RawRow) -> str:
        column, value = row.value(self.names.label)
        if value is None or (isinstance(value, str) and not value.strip()):
            raise row.error(column, value, "a label")
        if not isinstance(value, (str, int, float)) or value != value:  # NaN is not itself
            raise row.error(column, value, "a label as text or a code")
        raw = str(value).strip()
        if not is_unicode(raw):
            raise row.error(column, value, "valid Unicode")
        if isinstance(value, bool):
            raw = raw.lower()  # as JSON and YAML write it
        declared = row.class_names.get(column)
        if raw not in self.label_names and declared is not None and isinstance(value, int):
            if not 0 <= value < len(declared):
                raise row.error(column, value, f"0 to {len(declared) - 1}, the classes that the data set declares")
            raw = declared[value]
        label = self.label_names.get(raw, raw)
        known = self._known_labels()
        if known is not None and label not in known:
            raise row.error(column, value, one_of(label, (*known, *self.label_names)))
        return label

    def _known_labels(self) -> tuple[str, ...] | None:
        """The labels that a row may have; None: any."""
        if self.labels is None and self.label_names:
            return tuple(dict.fromkeys(self.label_names.values()))
        return self.labels
