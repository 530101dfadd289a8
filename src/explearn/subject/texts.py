"""Reading a user's texts: from a CSV, JSON Lines, Parquet or text file, from a table in memory or a list."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from explearn.core.arguments import check_listed, each_text
from explearn.core.errors import DataError, ParamsError, located
from explearn.core.examples import Example, Rationale, RationaleKind
from explearn.core.words import word_number, words_of
from explearn.predictors.labelled import check_labels, check_segments, classes_by_number
from explearn.show.blocks import several
from explearn.text.custom import CustomRows
from explearn.text.encoding import TEXT, Text, as_segments
from explearn.text.mapping import cell_text
from explearn.text.params import Columns
from explearn.text.rows import RawRow, read_file

RATIONALES = ("mask", "marked", "spans")
"""Formats in which a column may hold marked words; see `explearn.text.params.Columns`."""

KINDS: Mapping[str, RationaleKind] = {"people": "human", "model": "llm"}
"""Kinds of annotators, by what users call them."""


@dataclass(frozen=True, slots=True)
class TextColumns:
    """The names of a table's columns; None if there is no such column.

    Attributes:
        text: column with the text (default: `text`).
        pair: column with the second segment, for classifiers of pairs.
        label: column with the true label.
        id: column with a unique id.
        rationales: column with the marked words, as FORMAT:COLUMN, with a format of RATIONALES.
        label_names: value in the label column -> class of the classifier. `Predictor.renamed` renames a class.
        token: column with the classified word, for models that classify tokens: its number from 0, or the word itself.
        marks_by: who marked the words: `people`, `model` (a language model), or a name. None: not known.

    Example:
        >>> import explearn
        >>> explearn.TextColumns(text="review", rationales="mask:marks").pair is None
        True
    """

    text: str | None = None
    pair: str | None = None
    label: str | None = None
    id: str | None = None
    rationales: str | None = None
    label_names: Mapping[str, str] = field(default_factory=dict)
    token: str | None = None
    marks_by: str | None = None

    def section(self, text: str) -> Columns:
        """Return the columns as parameters of a source.

        Args:
            text: the column with the text.

        Raises:
            ParamsError: `rationales` is malformed, or there are label names without a label column.
        """
        if self.label_names and self.label is None:
            raise ParamsError(
                f"label names: got {', '.join(self.label_names)}, but no label column that has such values "
                "(--label-column, TextColumns(label=...)); a class of the classifier is renamed by --class-name, or "
                "Predictor.renamed"
            )
        columns = {"text": text, "pair": self.pair, "id": self.id}
        if self.label is not None:
            columns["label"] = self.label
        if self.rationales is not None:
            kind, _, column = self.rationales.partition(":")
            if kind not in RATIONALES or not column:
                raise ParamsError(
                    f"rationales: got {self.rationales!r}; expected FORMAT:COLUMN, the format one of "
                    f"{', '.join(RATIONALES)}"
                )
            columns[kind] = column
        return Columns(**columns)


@dataclass(frozen=True, slots=True)
class UserTexts:
    """The texts of a comparison.

    Attributes:
        name: name of the task that they make.
        examples: all of split `test`, with an empty label where it is not known.
        rationales: their marked words, if any.
        labels: the labels that occur, sorted; empty if none is known.
        hint: a note for the report's reader on columns that were not used, and texts that were left out.
        numbered: whether the labels were given as numbers.
        groups: group of each text, empty where it is not known; none without groups.
    """

    name: str
    examples: Sequence[Example]
    rationales: Sequence[Rationale]
    labels: Sequence[str]
    hint: str = ""
    numbered: bool = False
    groups: Sequence[str] = ()

    def without(self, ids: Collection[str], why: str) -> UserTexts:
        """Leave out some texts, and say so in the hint.

        Args:
            ids: their ids.
            why: a sentence about them, without a full stop.
        """
        kept = [number for number, example in enumerate(self.examples) if example.id not in ids]
        return replace(
            self,
            examples=[self.examples[number] for number in kept],
            rationales=[rationale for rationale in self.rationales if rationale.example_id not in ids],
            hint=f"{why}. {self.hint}".strip(),
            groups=[self.groups[number] for number in kept] if self.groups else (),
        )

    def of_classes(self, name: str, classes: Sequence[str]) -> UserTexts:
        """Return the texts, with names of classes in place of their numbers (`classes_by_number`).

        Args:
            name: name of the classifier.
            classes: its classes.

        Raises:
            ModelError: a label is not a class.
            ParamsError: second segments are names of classes.
        """
        check_segments(classes, [(example.text, example.pair_text) for example in self.examples])
        names, note = classes_by_number(classes, self.labels, self.numbered)
        hint = f"{self.hint} {note}".strip()
        examples = [replace(example, label=names.get(example.label, example.label)) for example in self.examples]
        texts = replace(self, examples=examples, labels=_labels(examples), hint=hint)
        remedy = "map the labels with --label-name VALUE=CLASS, or rename the classes with --class-name CLASS=NAME"
        check_labels(name, classes, texts.labels, remedy)
        return texts


class _UserRows(CustomRows):
    """Rows of a user's table, whose labels may be missing.

    Attributes:
        labelled: whether it has a column of labels.
    """

    labelled: bool

    def _label(self, row: RawRow) -> str:
        if not self.labelled or not _named(row, self.names.label):
            return ""
        return super()._label(row)


def given_texts(
    texts: Any,
    labels: Sequence[str | int | None] | None = None,
    columns: TextColumns | None = None,
    group: str | None = None,
) -> UserTexts:
    """Return the texts of a file, of a table (pandas, datasets, dicts), or of a list with its labels.

    Args:
        texts: the texts.
        labels: the labels of a list; None, NaN or blank where it is not known.
        columns: what the columns of a file or table hold.
        group: column with the group of each text.

    Raises:
        DataError: a text or row is not valid.
        ParamsError: got labels with a table, or columns with a list.
    """
    no_labels = "labels: go with a list of texts; of a file or a table, columns.label names their column"
    if isinstance(texts, str | Path):
        if labels is not None:
            raise ParamsError(no_labels)
        return read_text_file(texts, columns or TextColumns(), group)
    listed = list(each_text(texts))
    if listed and all(isinstance(row, Mapping) for row in listed):
        if labels is not None:
            raise ParamsError(no_labels)
        class_names = {}
        for column, feature in getattr(texts, "features", {}).items():
            if hasattr(feature, "names"):  # a ClassLabel of datasets
                class_names[column] = tuple(feature.names)
        rows = [RawRow("texts", "texts", number, row, class_names) for number, row in enumerate(listed, start=1)]
        return _texts_of_rows(rows, "texts", columns or TextColumns(), group)
    if columns is not None or group is not None:
        raise ParamsError("texts: got a list, which has no columns; its labels and groups are arguments of their own")
    return listed_texts(listed, labels)


def read_text_file(path: str | Path, columns: TextColumns, group: str | None = None) -> UserTexts:
    """Read the texts of a .csv, .jsonl or .parquet table, or of a .txt file with one text per line.

    Raises:
        DataError: a row is not valid; the message names file, row and column.
    """
    path = Path(path)
    rows = list(read_file(path))
    if not rows:
        raise DataError(f"{path}: no text; expected at least one")
    # The file's own, as far as it may name files.
    return _texts_of_rows(rows, re.sub(r"[^A-Za-z0-9_.-]+", "_", path.stem).lstrip(".-") or "texts", columns, group)


def _texts_of_rows(rows: Sequence[RawRow], name: str, columns: TextColumns, group: str | None) -> UserTexts:
    text = columns.text or TEXT
    # Without a column of texts, those with marks may hold them.
    missing = columns.text is None and text not in rows[0].values
    if missing and not (columns.rationales or "").startswith("marked:"):
        raise DataError(
            f"{rows[0].file}: got the columns {', '.join(rows[0].values)}; expected a column 'text', or the name of "
            "the one with the texts (--text-column, TextColumns(text=...))"
        )
    section = columns.section(text)
    if missing:
        section = section.model_copy(update={"text": None})
    adapter = _UserRows(section, columns.label_names)
    adapter.labelled = columns.label is not None
    examples: dict[str, Example] = {}
    rationales: list[Rationale] = []
    groups = []
    for row in rows:
        mapped = adapter.map_row(row)
        identifier = mapped.id or f"{name}-{row.number}"
        if identifier in examples:
            raise row.error("id", identifier, "unique ids")
        mapped = mapped._replace(focus=_word(row, columns.token, mapped.words))
        examples[identifier], marked = mapped.example(row, identifier, "test", name)
        for rationale in marked:
            author = columns.marks_by
            if author is not None and author in KINDS:
                rationale = replace(rationale, kind=KINDS[author])
            elif author is not None:
                rationale = replace(rationale, annotator=author)
            rationales.append(rationale)
        if group is not None:
            groups.append(_named(row, group))
    hint = ""
    if columns.label is None and "label" in rows[0].values:
        hint = "The texts have a column 'label' that was not used; --label-column label uses it."
    listed = list(examples.values())
    return UserTexts(name, listed, rationales, _labels(listed), hint, groups=groups)


def _named(row: RawRow, column: str) -> str:
    """Return the label or group that a column names; empty if it is missing."""
    with row.located(column):
        return cell_text(row.value(column)[1])


def _word(row: RawRow, column: str | None, words: Sequence[str]) -> tuple[int, int] | None:
    """Return the range of the word that a column names; None without a column."""
    if column is None:
        return None
    _, value = row.value(column)
    if not isinstance(value, int | str):
        raise row.error(column, value, "a word of the text or its number, from 0")
    if str(value).isdecimal():
        value = int(value)
    with row.located(column):
        number = word_number(words, value, "the text")
    return number, number + 1


def listed_texts(listed: Sequence[Text], labels: Sequence[str | int | None] | None) -> UserTexts:
    """Return the texts of a list of texts or pairs, with their labels in the same order.

    Raises:
        DataError: a text has no words, or is not a text or a pair; a label is not a name or a number.
        ParamsError: there are not as many labels as texts.
    """
    names = [""] * len(listed)
    numbered = False
    if labels is not None:
        check_listed("labels", labels)
        names = []
        for number, label in enumerate(labels, start=1):  # of a column, too
            with located(f"text {number}, field 'label': "):
                names.append(cell_text(label))
        numbered = not any(isinstance(label, str) for label, name in zip(labels, names, strict=True) if name)
    if not listed:
        raise DataError("texts: got none; expected at least one")
    if len(names) != len(listed):
        raise ParamsError(f"labels: got {len(names)} for {several(len(listed), 'text')}; expected one for each")
    examples = []
    for number, (text, label) in enumerate(zip(listed, names, strict=True), start=1):
        words, pair, gaps = words_of(as_segments(text, number)[0])
        with located(f"text {number}, "):
            examples.append(Example(f"texts-{number}", words, label, "test", "texts", pair, gaps=gaps))
    return UserTexts("texts", examples, (), _labels(examples), numbered=numbered)


def _labels(examples: Iterable[Example]) -> list[str]:
    return sorted({example.label for example in examples} - {""})
