"""The adapters by name, and those of plain classification data sets (a text or a pair, and a label)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from explearn.core.errors import ParamsError, UnknownNameError
from explearn.core.examples import Split
from explearn.text.mapping import MappedRow
from explearn.text.rows import RawRow
from explearn_study.sources.annotated import CorpusAdapter, HateXplainAdapter, MovieRationalesAdapter
from explearn_study.sources.custom import CustomAdapter
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
from explearn_study.sources.params import SourceParams
from explearn_study.sources.questions import SquadAdapter

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
        return MappedRow(
            words=row.words(*self.text),
            pair=row.words(self.pair) if self.pair else (),
            label=class_label(row, column, value, self.labels, self.aliases),
            id=row_id(row, self.task),
        )


POLARITY = ("negative", "positive")
POLARITY_ALIASES = {"neg": "negative", "pos": "positive"}


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
