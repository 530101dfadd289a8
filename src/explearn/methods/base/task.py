"""The data for training explainers: a task's texts, and results of earlier steps on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from explearn.core.arrays import Array
from explearn.core.errors import DataError
from explearn.core.examples import Example, Rationale

if TYPE_CHECKING:
    # torch and transformers take seconds to import, and reading a run's parameters needs neither.
    import torch

    from explearn.lens.features import ExampleFeatures
    from explearn.lens.word_signals import WordSignals
    from explearn.predictors.predictor import Predictor


LabelledText = str | tuple[str, str] | Example
"""A text, a text with its label, or an example."""

Marks = Mapping[str, Sequence[bool]] | Sequence[Sequence[bool] | None] | Sequence[Rationale]
"""Which words are evidence: example id -> mask over the words, for each text its mask or None, or Rationales."""


class Lesson(NamedTuple):
    """A teacher's scores of one text.

    Attributes:
        example_id: id of the text.
        target: name of the explained class.
        weights: float64, (words,), larger for more evidence.
    """

    example_id: str
    target: str
    weights: Array


class Lessons(NamedTuple):
    """A teacher's scores of a task's texts.

    Attributes:
        by_split: lessons in the texts' order; texts that the teacher failed on are missing.
        signed: whether weights below 0 are evidence against the class.
    """

    by_split: dict[str, list[Lesson]]
    signed: bool


class TaskData(Protocol):
    """One task. Nothing is read or computed before it is needed.

    `explearn.methods.listed_task.ListedTask` computes it for lists of texts; the study reads the files of its stages.
    """

    @property
    def name(self) -> str:
        """The task's name, for records and messages."""

    @property
    def classifier(self) -> Predictor:
        """The classifier to be explained."""

    @property
    def device(self) -> torch.device:
        """The device for training networks that need no classifier."""

    @property
    def encoder(self) -> str | None:
        """The pretrained encoder that the classifier comes from: `embedded`, a hub name or a folder."""

    @property
    def encoder_revision(self) -> str | None:
        """Git revision of `encoder`."""

    @property
    def balanced(self) -> bool:
        """True if the classifier was fine-tuned with class weights inverse to frequency."""

    @property
    def skill(self) -> float | None:
        """Matthews correlation of the classifier's predictions with the validation texts' labels; None: unknown."""

    @property
    def gold(self) -> Mapping[str, Sequence[bool]]:
        """Example id -> which of its words are evidence."""

    @property
    def rationale_split(self) -> str:
        """The split whose rationales may be learned from."""

    @property
    def others(self) -> Sequence[TaskData]:
        """The other tasks."""

    def examples(self, split: str | None = None) -> list[Example]:
        """Return the texts of a split (default: of all)."""

    def features(self, split: str, hidden: bool = False) -> tuple[dict[str, Any], Iterable[ExampleFeatures]]:
        """Return attention features of a split's texts, with `hidden` states or without, and their source.

        The source (`explearn.lens.features.feature_source`) comes first.
        """

    def signals(self, split: str) -> Iterable[WordSignals] | None:
        """Return stored word scores of many methods for texts of the train or validation split.

        None: nothing is stored; `explearn.methods.consensus.signals.signals_of` computes them.
        """

    def lessons(self, teacher: str) -> Lessons:
        """Return the scores of a method, or of `ensemble:NAME,NAME`, for the training and validation texts."""


def check_source(task: TaskData, source: Mapping[str, Any], split: str) -> None:
    """Raise DataError if a task's features were computed with another classifier than the task has now."""
    if source["classifier"] != task.classifier.fingerprint:
        raise DataError(
            f"task {task.name!r}, split {split!r}: its features are of another classifier than the task's own; "
            "run the stage features again"
        )
