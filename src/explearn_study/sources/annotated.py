"""Adapters for data sets with rationales: the project's own corpus, HateXplain and Movie Rationales."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from explearn.core.errors import UnknownNameError
from explearn.core.escape import is_unicode
from explearn.core.examples import SPLITS, Split
from explearn.core.words import words_of
from explearn.text.mapping import MappedRow, Marks
from explearn.text.marks import parse_mask
from explearn.text.rows import RawRow
from explearn_study.sections import SourceParams
from explearn_study.sources.mapping import (
    ALL_SPLITS,
    ID_COLUMNS,
    OWN_NAMES,
    Adapter,
    Dropped,
    HubDefault,
    class_label,
    row_id,
)

CONVERTED = "refs/convert/parquet"
"""The hub's Parquet conversion of data sets published as a loading script, which `datasets` does not run."""

NO_MAJORITY = "no majority label"
EVIDENCE_NOT_FOUND = "evidence not found in its text"


def _mask(row: RawRow, column: str, value: object, n_words: int) -> tuple[bool, ...]:
    with row.located(column):
        return parse_mask(value, n_words)


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
        elif not is_unicode(label):
            raise row.error(column, label, "valid Unicode")
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
            marks.append(Marks(names[position], "human", _mask(row, f"rationales[{position}]", mask, n_words)))
        return marks


class MovieRationalesAdapter(Adapter):
    """An adapter for Movie Rationales (Zaidan et al. 2007, as in ERASER): reviews with phrases as evidence.

    The source gives the phrases without their positions. Every full occurrence of a phrase is marked; a phrase that
    occurs nowhere is counted as dropped, and its position is not guessed.
    """

    LABELS = ("negative", "positive")
    ALIASES: Mapping[str, str] = {"neg": "negative", "pos": "positive"}
    ANNOTATOR = "zaidan"

    labels = LABELS
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
            label=class_label(row, column, label, self.LABELS, self.ALIASES),
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
