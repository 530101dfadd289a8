"""The adapters by name, and those of data sets without marks: a text or a pair and a label, questions, any table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from explearn.core.errors import ParamsError, UnknownNameError
from explearn.core.examples import Split
from explearn.core.validation import Count, Shape
from explearn.core.words import words_of
from explearn.predictors.heads.answers import ANSWER_LABELS, ANSWER_WORDS
from explearn.text.custom import CustomRows
from explearn.text.mapping import MappedRow, one_of
from explearn.text.rows import RawRow
from explearn_study.sections import SourceParams
from explearn_study.sources.annotated import (
    ALL_SPLITS,
    ID_COLUMNS,
    OWN_NAMES,
    POLARITY,
    POLARITY_ALIASES,
    Adapter,
    CorpusAdapter,
    Dropped,
    HateXplainAdapter,
    HubDefault,
    MovieRationalesAdapter,
    class_label,
    row_id,
)

TRAIN_TEST: Mapping[Split, str] = {"train": "train", "test": "test"}
VALIDATION_AS_TEST: Mapping[Split, str] = {"train": "train", "test": "validation"}
"""Splits of data sets whose test part is published without labels."""


@dataclass(frozen=True)
class TextAdapter(Adapter):
    """An adapter for rows with a text column (and a second one for pairs) and a label.

    Attributes:
        task: name of the task.
        labels: the task's labels in order.
        hub: the data set on the hub.
        text: possible names of the text column, in files and on the hub.
        pair: column of the second segment.
        aliases: other names of the labels, in lower case.
        unlabelled: raw labels of rows that are dropped; without them such a row is an error.
        file_splits: our split -> stems of its file, in order of preference.
    """

    task: str
    labels: tuple[str, ...]
    hub: HubDefault
    text: tuple[str, ...] = ("text",)
    pair: str | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    unlabelled: tuple[object, ...] = ()
    file_splits: Mapping[Split, tuple[str, ...]] = field(default_factory=lambda: OWN_NAMES)

    @property
    def columns(self) -> tuple[str, ...]:
        names = (*self.text, "label", *ID_COLUMNS)
        return (*names, self.pair) if self.pair else names

    def map_row(self, row: RawRow) -> MappedRow | Dropped:
        column, value = row.value("label")
        if value in self.unlabelled:
            return Dropped(f"label {value}")
        segments = [row.segment(*self.text)]
        if self.pair:
            segments.append(row.segment(self.pair))
        words, pair, gaps = words_of(segments)
        label = class_label(row, column, value, self.labels, self.aliases)
        return MappedRow(words, label, pair, row_id(row, self.task), gaps=gaps)


TEXT_SETS: dict[str, dict[str, Any]] = {
    "sst2": {
        "labels": POLARITY,
        "hub": HubDefault("stanfordnlp/sst2", VALIDATION_AS_TEST),
        "text": ("text", "sentence"),
    },
    "cola": {
        "labels": ("unacceptable", "acceptable"),
        "hub": HubDefault("nyu-mll/glue", VALIDATION_AS_TEST, config="cola"),
        "text": ("text", "sentence"),
        "file_splits": {"train": ("train",), "test": ("validation",)},
    },
    "rotten_tomatoes": {
        "labels": POLARITY,
        "hub": HubDefault("cornell-movie-review-data/rotten_tomatoes", ALL_SPLITS),
        "aliases": POLARITY_ALIASES,
    },
    "ag_news": {
        "labels": ("world", "sports", "business", "sci/tech"),
        "hub": HubDefault("fancyzhx/ag_news", TRAIN_TEST),
    },
    "imdb": {"labels": POLARITY, "hub": HubDefault("stanfordnlp/imdb", TRAIN_TEST), "aliases": POLARITY_ALIASES},
    "emotion": {
        "labels": ("sadness", "joy", "love", "anger", "fear", "surprise"),
        "hub": HubDefault("dair-ai/emotion", ALL_SPLITS, config="split"),
    },
    "snli": {
        "labels": ("entailment", "neutral", "contradiction"),
        "hub": HubDefault("stanfordnlp/snli", ALL_SPLITS),
        "text": ("premise",),
        "pair": "hypothesis",
        "unlabelled": (-1, "-1", "-"),  # the annotators did not agree on a label
    },
}
"""Name -> arguments of its `TextAdapter`."""


class _Answers(Shape):
    text: list[str]
    answer_start: list[Count]


class SquadAdapter(Adapter):
    """An adapter for the columns `question`, `context` and `answers`, {"text": [...], "answer_start": [...]}.

    The answer is the words that the first answer touches. Rows without an answer, or with one longer than ANSWER_WORDS,
    are dropped and counted.
    """

    labels = ANSWER_LABELS
    # The test part of SQuAD is not published.
    hub = HubDefault("rajpurkar/squad", {"train": "train", "test": "validation"})
    columns = ("question", "context", "answers", *ID_COLUMNS)

    def __init__(self, task: str, source: SourceParams) -> None:
        self.task = task

    def map_row(self, row: RawRow) -> MappedRow | Dropped:
        passage = row.segment("context")
        question, words, gaps = words_of([row.segment("question"), passage])
        answers: _Answers = row.read(_Answers, '{"text": [TEXT, ...], "answer_start": [NUMBER from 0, ...]}', "answers")
        if not answers.text or not answers.answer_start:
            return Dropped("no answer")
        text = answers.text[0]
        start = answers.answer_start[0]
        if passage.text[start : start + len(text)] != text:
            raise row.error("answers", text, f"the text of the passage from character {start} on")
        end = start + len(text)
        touched = [number for number, (first, last) in enumerate(passage.spans) if first < end and start < last]
        if not touched:
            raise row.error("answers", text, "an answer of at least one word")
        if len(touched) > ANSWER_WORDS:
            return Dropped(f"answer longer than {ANSWER_WORDS} words")
        shift = len(question)
        return MappedRow(
            words=question,
            pair=words,
            label=ANSWER_LABELS[0],
            id=row_id(row, self.task),
            focus=(touched[0] + shift, touched[-1] + 1 + shift),
            gaps=gaps,
        )


class CustomAdapter(CustomRows, Adapter):
    """An adapter for any table, with the columns named in `SourceParams.columns`.

    Raises:
        ParamsError: the columns contradict each other.
    """

    def __init__(self, task: str, source: SourceParams) -> None:
        super().__init__(source.columns, source.label_names)
        columns = self.names
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
        self.labels = tuple(source.labels) if source.labels is not None else None
        self.known_labels = self.labels or tuple(dict.fromkeys(self.label_names.values())) or None
        for raw, label in self.label_names.items():
            if self.labels is not None and label not in self.labels:
                raise ParamsError(f"{where}.label_names.{raw}: got {label!r}; expected {one_of(label, self.labels)}")

    @property
    def columns(self) -> list[str]:
        return [name for name in self.names.model_dump().values() if name is not None]


ADAPTERS: dict[str, Callable[[str, SourceParams], Adapter]] = {
    "corpus": CorpusAdapter,
    "hatexplain": HateXplainAdapter,
    "squad": SquadAdapter,
    "movie_rationales": MovieRationalesAdapter,
    "custom": CustomAdapter,
}
"""Name -> constructor, from (task, source), of the adapters that are not a `TextAdapter`."""

VIEWED = ("hatexplain",)
"""Adapters with variants of their labels."""


def get_adapter(task: str, source: SourceParams) -> Adapter:
    """Return the adapter that `source` names.

    Raises:
        UnknownNameError: there is no such adapter or view.
        ParamsError: options that the adapter does not take.
    """
    names = [*TEXT_SETS, *ADAPTERS]
    if source.adapter not in names:
        raise UnknownNameError("adapter", source.adapter, names)
    where = f"sources.{task}"
    if source.view is not None and source.adapter not in VIEWED:
        raise ParamsError(
            f"{where}.view: got {source.view!r}; expected null, for adapter {source.adapter!r} has no views"
        )
    if source.adapter in TEXT_SETS:
        adapter: Adapter = TextAdapter(task, **TEXT_SETS[source.adapter])
    else:
        adapter = ADAPTERS[source.adapter](task, source)
    if source.adapter != "custom" and (source.labels is not None or source.label_names):
        raise ParamsError(
            f"{where}: got labels or label_names; expected none, for adapter {source.adapter!r} has labels of its own"
        )
    return adapter
