"""The interface of adapters, which turn a raw row into words, a label and marks; and adapters with rationales.

These are for the project's own corpus, HateXplain and Movie Rationales.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explearn.core.errors import UnknownNameError
from explearn.core.examples import SPLITS, Split
from explearn.core.validation import whole_number
from explearn.core.words import words_of
from explearn.text.mapping import MappedRow, Marks, identifier, one_of
from explearn.text.marks import parse_mask
from explearn.text.rows import RawRow
from explearn_study.sections import SourceParams

OWN_NAMES: Mapping[Split, tuple[str, ...]] = {split: (split,) for split in SPLITS}
"""File stems for files named after our splits."""

ALL_SPLITS: Mapping[Split, str] = {split: split for split in SPLITS}

POLARITY = ("negative", "positive")
POLARITY_ALIASES = {"neg": "negative", "pos": "positive"}

ID_COLUMNS = ("id", "idx")
"""Columns from which `row_id` takes a row's identifier."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A row that does not become an example, and the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class HubDefault:
    """The name of a data set on the hub, and the mapping of its splits to ours."""

    name: str
    splits: Mapping[Split, str]
    config: str | None = None
    revision: str | None = None


class Adapter(ABC):
    """A mapping of one data set's rows.

    Attributes:
        labels: the task's labels in order; None: the labels found in train, sorted.
        hub: the data set on the hub; None for sources that exist only as files.
        file_splits: our split -> stems of its file, in order of preference.
        splits_in_rows: whether one file holds all splits and each row names its own.
        columns: the columns that `map_row` may use; no other column is read.
    """

    labels: tuple[str, ...] | None = None
    hub: HubDefault | None = None
    file_splits: Mapping[Split, tuple[str, ...]] = OWN_NAMES
    splits_in_rows: bool = False

    @property
    @abstractmethod
    def columns(self) -> Collection[str]: ...

    @abstractmethod
    def map_row(self, row: RawRow) -> MappedRow | Dropped:
        """Map a row.

        Raises:
            DataError: the row cannot be used; names file, row and field.
        """


def row_id(row: RawRow, task: str) -> str | None:
    """Return the row's identifier: column `id`, or TASK-FILE-IDX from a running number `idx`, or None.

    Raises as `identifier` does.
    """
    if row.values.get("id") is not None:
        return identifier(row, "id", row.values["id"])
    if row.values.get("idx") is not None:
        return f"{task}-{row.stem}-{identifier(row, 'idx', row.values['idx'])}"
    return None


def class_label(
    row: RawRow, column: str, value: object, labels: Sequence[str], aliases: Mapping[str, str], path: str | None = None
) -> str:
    """Return the label of a raw value.

    A string is a label or, in upper or lower case, one of `aliases`. An integer (or its digits, as in CSV) is an index
    into the classes that the source declares for the column, else into `labels`.

    Args:
        row: the row.
        column: its column.
        value: the raw value.
        labels: the task's labels.
        aliases: other names of the labels, in lower case.
        path: the full name of a nested column. None: `column`.

    Raises:
        DataError: anything else; suggests similar names.
    """
    name = value
    if isinstance(value, str) and value.strip() not in labels:
        code = whole_number(value)
        if code is not None:
            name = code
    if isinstance(name, int) and not isinstance(name, bool):
        declared = row.class_names.get(path or column, tuple(labels))
        if not 0 <= name < len(declared):
            codes = ", ".join(f"{code} ({label})" for code, label in enumerate(declared))
            raise row.error(column, value, f"one of {codes}")
        name = declared[name]
    if not isinstance(name, str):
        raise row.error(column, value, one_of(str(value), labels))
    folded = name.strip().casefold()
    label = aliases.get(folded, folded)
    if label not in labels:
        raise row.error(column, value, one_of(name, labels))
    return label


CONVERTED = "refs/convert/parquet"
"""The hub's Parquet conversion of data sets published as a loading script, which `datasets` does not run."""

NO_MAJORITY = "no majority label"
EVIDENCE_NOT_FOUND = "evidence not found in its text"


class CorpusAdapter(Adapter):
    """An adapter for the embedded corpus (data/corpus): id, task, split, label, words. Its marks are in other files."""

    LABELS: Mapping[str, tuple[str, ...]] = {
        "reviews": ("negative", "positive"),
        "grammar": ("acceptable", "unacceptable"),
        "civility": ("civil", "hostile"),
        "topics": ("world", "sports", "business", "science"),
    }

    splits_in_rows = True
    columns = ("task", "split", "words", "label", *ID_COLUMNS)

    def __init__(self, task: str, source: SourceParams) -> None:
        self.corpus = Path(source.path).stem if source.path else task
        self.labels = self.LABELS.get(self.corpus)

    def map_row(self, row: RawRow) -> MappedRow:
        column, corpus = row.value("task")
        if corpus != self.corpus:
            raise row.error(column, corpus, f"{self.corpus!r}, as the file is named")
        column, split = row.value("split")
        if split not in SPLITS:
            raise row.error(column, split, f"one of {', '.join(SPLITS)}")
        words = row.word_list("words")
        column, label = row.value("label")
        if self.labels is not None:
            label = class_label(row, column, label, self.labels, {})
        elif not isinstance(label, str):
            raise row.error(column, label, "a label as text")
        return MappedRow(words=words, label=label, id=row_id(row, self.corpus), split=split)


class HateXplainAdapter(Adapter):
    """An adapter for HateXplain (Mathew et al. 2021): posts labelled by three annotators, with masks for toxic ones.

    It reads the hub's rows (`post_tokens`, `annotators` with label and annotator_id), the files' rows (`tokens`,
    `labels`, `annotators`) and posts with only a majority `label` and a `text`.

    View `binary` (the default): toxic if at least two of three say hatespeech or offensive, else normal. View
    `three_class`: the label given by at least two; posts with three different labels are dropped. View `toxic`: the
    same without normal posts, as in ExpNet (section 4.1). Masks are kept for posts that are toxic by majority.
    """

    RAW_LABELS = ("hatespeech", "normal", "offensive")
    VIEWS: Mapping[str, tuple[str, ...]] = {
        "binary": ("normal", "toxic"),
        "three_class": RAW_LABELS,
        "toxic": ("hatespeech", "offensive"),
    }
    ANNOTATORS = 3

    hub = HubDefault("Hate-speech-CNERG/hatexplain", ALL_SPLITS, revision=CONVERTED)
    file_splits: Mapping[Split, tuple[str, ...]] = {**OWN_NAMES, "train": ("train", "train_unannotated")}
    columns = ("label", "labels", "annotators", "rationales", "text", "tokens", "post_tokens", *ID_COLUMNS)

    def __init__(self, task: str, source: SourceParams) -> None:
        self.task = task
        self.view = source.view or "binary"
        if self.view not in self.VIEWS:
            raise UnknownNameError("view of adapter 'hatexplain'", self.view, self.VIEWS)
        self.labels = self.VIEWS[self.view]

    def map_row(self, row: RawRow) -> MappedRow | Dropped:
        if "label" in row.values and "annotators" not in row.values:
            column, value = row.value("label")
            label = class_label(row, column, value, self.RAW_LABELS, {})
            if self.view == "binary" and label != "normal":
                label = "toxic"
            if label not in self.VIEWS[self.view]:
                return Dropped(f"label {label}")
            words, _, gaps = words_of([row.segment("text")])
            return MappedRow(words, label, id=row_id(row, self.task), gaps=gaps)
        votes, annotators = self._votes(row)
        toxic = [vote != "normal" for vote in votes]
        toxic_by_majority = sum(toxic) >= 2
        if self.view == "binary":
            label = "toxic" if toxic_by_majority else "normal"
        else:
            label, count = Counter(votes).most_common(1)[0]
            if count < 2:
                return Dropped(NO_MAJORITY)
        if label not in self.VIEWS[self.view]:
            return Dropped(f"label {label}")
        words = row.word_list("tokens", "post_tokens")
        marks = self._marks(row, len(words), toxic, annotators)
        return MappedRow(
            words=words,
            label=label,
            id=row_id(row, self.task),
            marks=tuple(marks) if toxic_by_majority else (),
        )

    def _votes(self, row: RawRow) -> tuple[list[str], list[str]]:
        """Return (labels, annotator ids), one of each per annotator."""
        column, annotators = row.value("annotators")
        path: str | None = None
        raw: Any
        if "labels" in row.values:
            names = annotators
            column, raw = row.value("labels")
        else:
            path = "annotators.label"
            entries = annotators
            if isinstance(annotators, list) and all(isinstance(entry, dict) for entry in annotators):
                entries = {
                    "label": [entry.get("label") for entry in annotators],
                    "annotator_id": [entry.get("annotator_id") for entry in annotators],
                }
            if not isinstance(entries, dict) or "label" not in entries:
                raise row.error(column, annotators, "labels and annotator_ids of the annotators")
            raw = entries["label"]
            names = entries.get("annotator_id")
        if not isinstance(raw, list) or len(raw) != self.ANNOTATORS:
            raise row.error(column, raw, f"{self.ANNOTATORS} labels, one an annotator")
        if not isinstance(names, list) or len(names) != len(raw) or None in names:
            raise row.error("annotators", names, f"{len(raw)} identifiers, one an annotator")
        votes = [class_label(row, column, value, self.RAW_LABELS, {}, path) for value in raw]
        return votes, list(map(str, names))

    def _marks(self, row: RawRow, n_words: int, toxic: list[bool], annotators: list[str]) -> list[Marks]:
        """Return the masks with their annotators.

        The source does not name a mask's annotator. If there are as many masks as annotators, they are assigned in
        order; if there are as many as toxic votes, they are assigned in order to those annotators, since only they were
        asked for a mask. Otherwise masks are named by position.
        """
        masks = row.read(list[Any], "a list of masks", "rationales")
        voters = [name for name, vote in zip(annotators, toxic, strict=True) if vote]
        if len(masks) == len(annotators):
            names = [f"annotator-{name}" for name in annotators]
        elif len(masks) == len(voters):
            names = [f"annotator-{name}" for name in voters]
        else:
            names = [f"position-{position}" for position in range(1, len(masks) + 1)]
        marks = []
        for position, mask in enumerate(masks):
            with row.located(f"rationales[{position}]"):
                marks.append(Marks(names[position], "human", parse_mask(mask, n_words)))
        return marks


class MovieRationalesAdapter(Adapter):
    """An adapter for Movie Rationales (Zaidan et al. 2007, as in ERASER): reviews with phrases as evidence.

    The source gives the phrases without their positions. Every full occurrence of a phrase is marked; a phrase that
    occurs nowhere is counted as dropped, and its position is not guessed.
    """

    ANNOTATOR = "zaidan"

    labels = POLARITY
    hub = HubDefault("eraser-benchmark/movie_rationales", ALL_SPLITS, revision=CONVERTED)
    columns = ("review", "text", "label", "evidences", *ID_COLUMNS)

    def __init__(self, task: str, source: SourceParams) -> None:
        self.task = task

    def map_row(self, row: RawRow) -> MappedRow:
        words, _, gaps = words_of([row.segment("review", "text")])
        column, label = row.value("label")
        evidences = row.read(list[str], "a list of phrases of the review", "evidences")
        masks = [mask_of_phrase(evidence.split(), words) for evidence in evidences]
        placed = [mask for mask in masks if any(mask)]
        marks = Marks(self.ANNOTATOR, "human", tuple(map(any, zip(*placed, strict=True))))
        return MappedRow(
            words=words,
            label=class_label(row, column, label, POLARITY, POLARITY_ALIASES),
            id=row_id(row, self.task),
            marks=(marks,) if placed else (),
            lost={EVIDENCE_NOT_FOUND: len(masks) - len(placed)},
            gaps=gaps,
        )


def mask_of_phrase(phrase: list[str], words: tuple[str, ...]) -> tuple[bool, ...]:
    """Return a mask of the words that any occurrence of `phrase` touches.

    An occurrence begins and ends at white space or punctuation (`good film` is found in `a good film.`, `art` is not
    found in `party`). The mask is all False without an occurrence, and for an empty phrase.
    """
    if not phrase:
        return (False,) * len(words)
    text = " ".join(words)
    wanted = " ".join(phrase)
    before = r"(?<!\w)" if wanted[0].isalnum() else ""
    after = r"(?!\w)" if wanted[-1].isalnum() else ""
    marked = [False] * len(text)
    for match in re.finditer(f"(?={before}{re.escape(wanted)}{after})", text):  # a look-ahead finds overlaps too
        marked[match.start() : match.start() + len(wanted)] = [True] * len(wanted)
    mask = []
    position = 0
    for word in words:
        mask.append(any(marked[position : position + len(word)]))
        position += len(word) + 1
    return tuple(mask)
