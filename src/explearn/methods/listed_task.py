"""A task made from lists of texts, for use without the pipeline's files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from explearn.core.arguments import check_listed
from explearn.core.errors import DataError, UnknownNameError, UnsupportedError
from explearn.core.examples import SPLITS, Example, Split
from explearn.lens.features import ExampleFeatures, Layers, compute_features, feature_source
from explearn.lens.word_signals import WordSignals
from explearn.methods.base.targets import check_classifier
from explearn.methods.base.task import Lessons, TaskData
from explearn.methods.base.teachers import lessons_of, make_teacher, members
from explearn.methods.consensus.signals import compute_signals
from explearn.predictors.heads.zero_shot import ZeroShotPredictor
from explearn.predictors.transformer import TransformerPredictor

LabelledText = Example | tuple[str, str]
"""An example, or a text with its label."""


class ListedTask:
    """A `TaskData` of texts in memory.

    Data that the pipeline's stages would have written to files are computed when needed: features by the classifier,
    lessons by the teacher.

        task = ListedTask(classifier, [("A warm, funny sequel.", "positive"), ...], validation)
        ivra = IvRA(criteria=["comp", "suff"]).fit(task)

    Args:
        classifier: the classifier to be explained.
        train, validation: examples, or pairs of a text and its label. The N-th pair of `train` gets the id `train-N`,
            from N = 1.
        gold: example id -> which of its words are evidence.
        rationale_split: split of the texts in `gold`.
        others: other tasks, for methods that learn from them.
        name: name of the task.
        lessons: teacher's name -> its scores of the texts; other teachers are made and explain the texts.
        teachers: teacher's name -> its options (default: the method's defaults).
        encoder, encoder_revision: pretrained encoder that the classifier was fine-tuned from.
        balanced: whether the classifier was fine-tuned with class weights inverse to frequency.
        skill: Matthews correlation of the classifier's predictions with the labels of unseen texts, by which consensus
            weights the other tasks (default: equal weights).
        layers: layers whose attention features are used (default: all); negative indices count from the end.
        seed: seed of teachers.

    Raises DataError for a text that is neither an example nor a pair, and for marks without a text or with another
    number of words; ParamsError for an argument of another kind; UnsupportedError for a zero-shot classifier.
    """

    def __init__(
        self,
        classifier: TransformerPredictor,
        train: Sequence[LabelledText],
        validation: Sequence[LabelledText] = (),
        *,
        gold: Mapping[str, Sequence[bool]] | None = None,
        rationale_split: Split = "train",
        others: Sequence[TaskData] = (),
        name: str = "texts",
        lessons: Mapping[str, Lessons] | None = None,
        teachers: Mapping[str, Mapping[str, Any]] | None = None,
        encoder: str | None = None,
        encoder_revision: str | None = None,
        balanced: bool = True,
        skill: float | None = None,
        layers: Layers = "all",
        seed: int = 13,
    ) -> None:
        check_classifier(classifier)
        if isinstance(classifier, ZeroShotPredictor):
            raise UnsupportedError(
                f"{classifier.name}: has candidate labels; expected the model without them, for pairs of a text and a "
                "hypothesis: what it trains explains its zero-shot answers, too"
            )
        check_listed("train", train, "texts with their labels")
        check_listed("validation", validation, "texts with their labels")
        self.classifier, self.name, self.others = classifier, name, others
        self.gold, self.rationale_split = dict(gold or {}), rationale_split
        self.encoder, self.encoder_revision, self.balanced = encoder, encoder_revision, balanced
        self.skill, self.layers, self.seed = skill, layers, seed
        self.teachers, self._lessons = teachers or {}, dict(lessons or {})
        self._splits: dict[str, list[Example]] = {
            "train": _examples(train, "train", name),
            "validation": _examples(validation, "validation", name),
        }
        lengths = {example.id: len(example.all_words) for example in self.examples()}
        for example_id, mask in self.gold.items():
            if example_id not in lengths:
                known = ", ".join(repr(one) for one in list(lengths)[:2]) or "none"
                raise DataError(
                    f"gold: no text has the id {example_id!r}; expected ids of the task's texts ({known}, ...)"
                )
            if len(mask) != (words := lengths[example_id]):
                raise DataError(
                    f"gold of text {example_id!r}: {len(mask)} marks; expected one for each of its {words} words"
                )

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
        source = feature_source(self.classifier, self.layers)
        return source, compute_features(self.classifier, self.examples(split), self.layers, hidden)

    def signals(self, split: str) -> Iterable[WordSignals]:
        return compute_signals(self.classifier, self.examples(split))

    def lessons(self, teacher: str) -> Lessons:
        if teacher not in self._lessons:
            options = {name: self.teachers.get(name, {}) for name in members(teacher)}
            methods = make_teacher(teacher, options, self.seed)
            self._lessons[teacher] = lessons_of(methods, self.classifier, self._splits)
        return self._lessons[teacher]


def _examples(texts: Sequence[LabelledText], split: Split, task: str) -> list[Example]:
    examples = []
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, Example):
            if not isinstance(text, tuple) or len(text) != 2 or not all(isinstance(part, str) for part in text):
                got = type(text).__name__
                raise DataError(f"{split} text {number}: got {got}; expected explearn.Example, or a text and its label")
            text = Example(f"{split}-{number}", tuple(text[0].split()), text[1], split, task)
        examples.append(text)
    return examples
