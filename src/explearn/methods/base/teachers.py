"""Teachers: methods whose word scores a student learns, a single method or an ensemble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explearn.core.arrays import Array
from explearn.core.attribution import Attribution
from explearn.core.errors import DataError, ParamsError
from explearn.core.examples import Example
from explearn.metrics.arrays import ranks

if TYPE_CHECKING:
    # Reading a run's parameters needs only the names, without torch.
    from explearn.methods.base.explainer import Explainer
    from explearn.predictors.predictor import Predictor

ANSWERS = "answers"
"""The teacher that is not a method: the classifier itself."""

ENSEMBLE = "ensemble:"
"""Prefix of the name of a teacher that is an ensemble of methods."""


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


def members(teacher: str) -> list[str]:
    """Return the methods behind a teacher's name: itself, or those of `ensemble:a,b,c`.

    Raises:
        ParamsError: an ensemble has fewer than two methods, or one twice.

    Example:
        >>> members("ensemble:lime,occlusion")
        ['lime', 'occlusion']
    """
    if not teacher.startswith(ENSEMBLE):
        return [teacher]
    names = teacher.removeprefix(ENSEMBLE).split(",")
    if len(names) < 2 or not all(names) or len(set(names)) != len(names):
        raise ParamsError(f"teacher {teacher!r}: expected {ENSEMBLE}NAME,NAME,... with two names or more, each once")
    return names


def lessons_of(
    methods: Mapping[str, Explainer], classifier: Predictor, splits: Mapping[str, Sequence[Example]]
) -> Lessons:
    """Explain the predicted class of some texts with the members of a teacher and combine their scores.

    Args:
        methods: name -> method, for each of `members`.
        classifier: the classifier to explain.
        splits: name of a split -> its texts.
    """
    from explearn.methods.base.targets import judged_targets

    lessons = []
    for method in methods.values():
        by_split = {}
        for split, examples in splits.items():
            attributions = method.explain(classifier, examples, judged_targets(classifier, examples))
            by_split[split] = [lesson_of(attribution) for attribution in attributions]
        lessons.append(Lessons(by_split, method.signed))
    return combine_lessons(lessons)


def lesson_of(attribution: Attribution) -> Lesson:
    """Return the lesson in an attribution; unread words get the text's lowest score."""
    return Lesson(attribution.example_id, attribution.target, np.asarray(attribution.filled(), dtype=np.float64))


def check_lesson(teacher: str, lesson: Lesson, example: Example | None) -> None:
    """Raise DataError unless the lesson's text exists and the lesson has a score for each of its words."""
    words = 0
    if example is not None:
        words = len(example.all_words)
    if len(lesson.weights) != words:
        raise DataError(
            f"teacher {teacher!r}, example {lesson.example_id!r}: {len(lesson.weights)} word scores for a text of "
            f"{words} words; expected one per word, run the stage teach again"
        )


def combine_lessons(lessons: Sequence[Lessons]) -> Lessons:
    """Combine the lessons of an ensemble's members; texts that a member did not explain are left out."""
    signed = all(member.signed for member in lessons)
    combined: dict[str, list[Lesson]] = {}
    for split, texts in lessons[0].by_split.items():
        weights: dict[str, list[Array]] = {text.example_id: [] for text in texts}
        for member in lessons:
            for lesson in member.by_split.get(split, ()):
                if lesson.example_id in weights:
                    weights[lesson.example_id].append(lesson.weights)
        combined[split] = []
        for text in texts:
            by_member = weights[text.example_id]
            if len(by_member) == len(lessons):
                combined[split].append(Lesson(text.example_id, text.target, combine_weights(by_member, signed)))
    return Lessons(combined, signed)


def combine_weights(weights: Sequence[NDArray[Any]], signed: bool) -> Array:
    """Combine an ensemble's scores of a text's words: the mean of `scaled_ranks`; of one member, its own scores."""
    if len(weights) == 1:
        return np.asarray(weights[0], dtype=np.float64)
    return np.asarray(np.mean([scaled_ranks(np.asarray(w, dtype=np.float64), signed) for w in weights], axis=0))


def scaled_ranks(weights: Array, signed: bool) -> Array:
    """Rank a text's weights in (0, 1], equal ones sharing their mean; signed: by |w|, with the sign of w.

    Example:
        >>> scaled_ranks(np.array([0.5, -2.0, 0.0, 1.0]), signed=True).tolist()
        [0.5, -1.0, 0.0, 0.75]
    """
    if signed:
        return np.sign(weights) * ranks(np.abs(weights)) / len(weights)
    return ranks(weights) / len(weights)
