"""The data for training explainers: a task's texts, and results of earlier steps on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch

from explearn.core.arguments import check_listed, is_pair
from explearn.core.errors import DataError, UnsupportedError, kind_of
from explearn.core.examples import Example, Rationale, Split
from explearn.core.words import Segment, words_of
from explearn.lens.features import ExampleFeatures, Layers, compute_features, feature_source
from explearn.methods.base.targets import check_classifier
from explearn.methods.base.teachers import Lessons, lessons_of, members
from explearn.methods.finding import find_explainer
from explearn.predictors.predictor import Predictor
from explearn.text.rationales import marks_by_id

if TYPE_CHECKING:
    from explearn.lens.word_signals import WordSignals

LabelledText = str | tuple[str, str] | Example
"""A text, a text with its label, or an example."""

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
        train: strings, pairs of a text and its label, or examples. Text N that is no example gets the id `train-N`,
            from N = 1; a string has no label.
        validation: as `train`.
        gold: which words of `train` are evidence (`explearn.text.rationales.marks_by_id`).
        others: other tasks, for methods that learn from them.
        name: name of the task.
        encoder: pretrained encoder that the classifier was fine-tuned from.
        encoder_revision: git revision of `encoder`.
        layers: layers whose attention features are used (default: all); negative indices count from the end.
        seed: seed of teachers.

    Raises:
        DataError: a text is not a string, a pair or an example; a mask has another number of words.
        ParamsError: an argument is of another kind.
        UnsupportedError: the classifier is a zero-shot classifier.
    """

    classifier: Predictor
    train: Sequence[LabelledText]
    validation: Sequence[LabelledText] = ()
    _: KW_ONLY
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
        if self.classifier.has_candidates:
            raise UnsupportedError(
                f"{self.classifier.name}: has candidate labels; expected the model without them, for pairs of a text "
                "and a hypothesis: what it trains explains its zero-shot answers, too"
            )
        self._splits: dict[str, list[Example]] = {
            "train": _examples("texts", self.train, "train", self.name),
            "validation": _examples("validation", self.validation, "validation", self.name),
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
        source = feature_source(self.classifier.transformer, self.layers)
        return source, compute_features(self.classifier.transformer, self.examples(split), self.layers, hidden)

    def signals(self, split: str) -> None:
        return None

    def lessons(self, teacher: str) -> Lessons:
        methods = {name: find_explainer(name, seed=self.seed) for name in members(teacher)}
        return lessons_of(methods, self.classifier, self._splits)


def _examples(argument: str, texts: Sequence[LabelledText], split: Split, task: str) -> list[Example]:
    check_listed(argument, texts, "texts with their labels")
    examples = []
    for number, text in enumerate(texts, start=1):
        if isinstance(text, Example):
            examples.append(text)
            continue
        if isinstance(text, str):
            text = (text, "")
        if not is_pair(text):
            raise DataError(
                f"{split} text {number}: got {kind_of(text)}; expected a string, a text and its label, or an "
                "explearn.Example"
            )
        string, label = text
        words, _, gaps = words_of([Segment.of(string)])
        examples.append(Example(f"{split}-{number}", words, label, split, task, gaps=gaps))
    return examples
