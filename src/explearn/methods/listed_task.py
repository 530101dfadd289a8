"""A task made from lists of texts: what `fit` learns from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from explearn.core.arguments import check_listed
from explearn.core.errors import DataError, UnknownNameError, UnsupportedError
from explearn.core.examples import SPLITS, Example, Split
from explearn.lens.features import ExampleFeatures, Layers, compute_features, feature_source
from explearn.methods.base.targets import check_classifier
from explearn.methods.base.task import LabelledText, Lessons, Marks, TaskData
from explearn.methods.base.teachers import lessons_of, make_teacher, members
from explearn.predictors.predictor import Predictor


class ListedTask:
    """A `TaskData` of texts in memory.

    Data that the pipeline's stages would have written to files are computed when needed: features by the classifier,
    lessons by the teacher.

    Args:
        classifier: the classifier to be explained.
        train: strings, pairs of a text and its label, or examples. Text N that is no example gets the id `train-N`,
            from N = 1; a string has no label.
        validation: as `train`.
        gold: which words are evidence: for each text of `train` a mask over its words or None, or example id -> mask.
        others: other tasks, for methods that learn from them.
        name: name of the task.
        teachers: teacher's name -> its options (default: the method's defaults).
        encoder: pretrained encoder that the classifier was fine-tuned from.
        encoder_revision: git revision of `encoder`.
        balanced: whether the classifier was fine-tuned with class weights inverse to frequency.
        layers: layers whose attention features are used (default: all); negative indices count from the end.
        seed: seed of teachers.

    Raises:
        DataError: a text is not a string, a pair or an example; marks are without a text, or with another number of
            words.
        ParamsError: an argument is of another kind.
        UnsupportedError: the classifier is a zero-shot classifier.
    """

    rationale_split = "train"
    skill = None

    def __init__(
        self,
        classifier: Predictor,
        train: Sequence[LabelledText],
        validation: Sequence[LabelledText] = (),
        *,
        gold: Marks | None = None,
        others: Sequence[TaskData] = (),
        name: str = "texts",
        teachers: Mapping[str, Mapping[str, Any]] | None = None,
        encoder: str | None = None,
        encoder_revision: str | None = None,
        balanced: bool = True,
        layers: Layers = "all",
        seed: int = 13,
    ) -> None:
        check_classifier(classifier)
        if classifier.has_candidates:
            raise UnsupportedError(
                f"{classifier.name}: has candidate labels; expected the model without them, for pairs of a text and a "
                "hypothesis: what it trains explains its zero-shot answers, too"
            )
        self.classifier = classifier
        self.others = others
        self.name = name
        self.teachers = teachers or {}
        self.encoder = encoder
        self.encoder_revision = encoder_revision
        self.balanced = balanced
        self.layers = layers
        self.seed = seed
        self._splits: dict[str, list[Example]] = {
            "train": _examples("texts", train, "train", name),
            "validation": _examples("validation", validation, "validation", name),
        }
        self._lessons: dict[str, Lessons] = {}
        self.gold = _by_id(gold, self._splits["train"])
        _check_masks(self.gold, self.examples())

    @property
    def device(self) -> torch.device:
        return self.classifier.device

    def examples(self, split: str | None = None) -> list[Example]:
        if split is None:
            return [example for rows in self._splits.values() for example in rows]
        if split not in SPLITS:
            raise UnknownNameError("split", split, SPLITS)
        return list(self._splits.get(split, ()))

    def features(self, split: str, hidden: bool = False) -> tuple[dict[str, Any], Iterable[ExampleFeatures]]:
        source = feature_source(self.classifier.transformer, self.layers)
        return source, compute_features(self.classifier.transformer, self.examples(split), self.layers, hidden)

    def signals(self, split: str) -> None:
        return None

    def lessons(self, teacher: str) -> Lessons:
        if teacher not in self._lessons:
            options = {name: self.teachers.get(name, {}) for name in members(teacher)}
            methods = make_teacher(teacher, options, self.seed)
            self._lessons[teacher] = lessons_of(methods, self.classifier, self._splits)
        return self._lessons[teacher]


def _examples(argument: str, texts: Sequence[LabelledText], split: Split, task: str) -> list[Example]:
    check_listed(argument, texts, "texts with their labels")
    examples = []
    for number, text in enumerate(texts, start=1):
        if isinstance(text, Example):
            examples.append(text)
            continue
        words, label = (text, "") if isinstance(text, str) else _pair(text, f"{split} text {number}")
        examples.append(Example(f"{split}-{number}", tuple(words.split()), label, split, task))
    return examples


def _pair(text: object, where: str) -> tuple[str, str]:
    if isinstance(text, tuple) and len(text) == 2 and all(isinstance(part, str) for part in text):
        return text
    got = type(text).__name__
    raise DataError(f"{where}: got {got}; expected a string, a text and its label, or an explearn.Example")


def _by_id(marks: Marks | None, examples: Sequence[Example]) -> dict[str, Sequence[bool]]:
    if marks is None:
        return {}
    if isinstance(marks, Mapping):
        return dict(marks)
    check_listed("rationales", marks, "one mask over the words, or None, for each text")
    if len(marks) != len(examples):
        raise DataError(f"rationales: got {len(marks)} for {len(examples)} texts; expected one mask, or None, for each")
    return {example.id: mask for example, mask in zip(examples, marks, strict=True) if mask is not None}


def _check_masks(gold: Mapping[str, Sequence[bool]], examples: Sequence[Example]) -> None:
    lengths = {example.id: len(example.all_words) for example in examples}
    for example_id, mask in gold.items():
        if example_id not in lengths:
            some = ", ".join(map(repr, list(lengths)[:2])) or "none"
            raise DataError(
                f"rationales: no text has the id {example_id!r}; expected ids of the task's texts ({some}, ...)"
            )
        words = lengths[example_id]
        if len(mask) != words:
            raise DataError(
                f"rationales of text {example_id!r}: {len(mask)} marks; expected one for each of its {words} words"
            )
