"""The data for training explainers: a task's texts, and results of earlier steps on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch

from explearn.core.arguments import check_listed
from explearn.core.errors import DataError, ParamsError
from explearn.core.examples import Example, Rationale, Split
from explearn.core.words import words_of
from explearn.lens.features import ExampleFeatures, Layers, compute_features, feature_source
from explearn.methods.base.targets import check_classifier
from explearn.methods.base.teachers import Lessons, lessons_of, members
from explearn.methods.finding import find_explainer
from explearn.predictors.labelled import check_segments, check_use, classes_by_number
from explearn.predictors.predictor import Predictor, transformer_of
from explearn.show.blocks import several
from explearn.text.encoding import Text, as_segments
from explearn.text.rationales import marks_by_id

if TYPE_CHECKING:
    from explearn.lens.word_signals import WordSignals

Marks = Mapping[str, Sequence[bool]] | Sequence[Sequence[bool] | None] | Sequence[Rationale]
"""Which words are evidence: example id -> mask over the words, for each text its mask or None, or Rationales."""


class TaskData(Protocol):
    """One task. Nothing is read or computed before it is needed.

    `ListedTask` computes it for lists of texts; the study reads the files of its stages.
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


@dataclass(eq=False)
class ListedTask:
    """A `TaskData` of texts in memory.

    Data that the pipeline's stages would have written to files are computed when needed: features by the classifier,
    lessons by the teacher, with the default options of its methods.

    Args:
        classifier: the classifier to be explained.
        train: strings, pairs of strings, or examples. Text N that is no example gets the id `train-N`, from N = 1.
        validation: as `train`.
        labels: the labels of `train`, by name or index; None: those of examples, or none.
        validation_labels: those of `validation`, likewise.
        gold: which words of `train` are evidence (`explearn.text.rationales.marks_by_id`).
        others: other tasks, for methods that learn from them.
        name: name of the task.
        encoder: pretrained encoder that the classifier was fine-tuned from.
        encoder_revision: git revision of `encoder`.
        layers: layers whose attention features are used (default: all); negative indices count from the end.
        seed: seed of teachers.

    Raises:
        DataError: a text is not a string, a pair or an example; a mask has another number of words.
        ParamsError: an argument is of another kind, there are not as many labels as texts, or labels stand where
            second segments should.
        UnknownNameError: a label is none of the classifier's.
        UnsupportedError: no explainer can be trained for the classifier.
    """

    classifier: Predictor
    train: Sequence[Text]
    validation: Sequence[Text] = ()
    _: KW_ONLY
    labels: Sequence[str | int] | None = None
    validation_labels: Sequence[str | int] | None = None
    gold: Any = None
    others: Sequence[TaskData] = ()
    name: str = "texts"
    encoder: str | None = None
    encoder_revision: str | None = None
    layers: Layers = "all"
    seed: int = 13

    rationale_split: ClassVar = "train"
    skill: ClassVar = None
    balanced: ClassVar = True

    def __post_init__(self) -> None:
        check_classifier(self.classifier)
        check_use(self.classifier, "training")
        self._splits: dict[str, list[Example]] = {
            "train": self._examples("train", self.train, "labels", self.labels),
            "validation": self._examples("validation", self.validation, "validation_labels", self.validation_labels),
        }
        self.gold = marks_by_id(self.gold, self._splits["train"], [example.id for example in self.examples()])

    @property
    def device(self) -> torch.device:
        return self.classifier.device

    def examples(self, split: str | None = None) -> list[Example]:
        if split is None:
            return [example for rows in self._splits.values() for example in rows]
        return list(self._splits.get(split, ()))

    def features(self, split: str, hidden: bool = False) -> tuple[dict[str, Any], Iterable[ExampleFeatures]]:
        source = feature_source(transformer_of(self.classifier), self.layers)
        return source, compute_features(transformer_of(self.classifier), self.examples(split), self.layers, hidden)

    def signals(self, split: str) -> None:
        return None

    def lessons(self, teacher: str) -> Lessons:
        methods = {name: find_explainer(name, seed=self.seed) for name in members(teacher)}
        return lessons_of(methods, self.classifier, self._splits)

    def _examples(
        self, split: Split, texts: Sequence[Text], argument: str, labels: Sequence[str | int] | None
    ) -> list[Example]:
        check_listed("texts" if split == "train" else split, texts)
        check_segments(self.classifier.labels, texts)
        names = [""] * len(texts)
        if labels is not None:
            check_listed(argument, labels)
            numbers = {str(label) for label in labels if isinstance(label, Integral)}
            by_number, _ = classes_by_number(self.classifier.labels, numbers, numbered=True)
            names = []
            for label in labels:
                names.append(self.classifier.labels[self.classifier.label_index(by_number.get(str(label), label))])
        if len(names) != len(texts):
            raise ParamsError(f"{argument}: got {len(names)} for {several(len(texts), 'text')}; expected one for each")
        examples = []
        for number, (text, label) in enumerate(zip(texts, names, strict=True), start=1):
            if isinstance(text, Example):
                examples.append(replace(text, label=label or text.label))
                continue
            segments, _ = as_segments(text, number)
            words, pair, gaps = words_of(segments)
            examples.append(Example(f"{split}-{number}", words, label, split, self.name, pair, gaps=gaps))
        return examples
