"""Teachers: methods whose word scores a student learns, a single method or an ensemble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from explearn.core.attribution import Attribution
from explearn.core.errors import DataError, ParamsError, UnknownNameError
from explearn.core.examples import Example
from explearn.methods.base.task import Lesson, Lessons
from explearn.methods.registry import get_explainer, with_seed
from explearn.metrics.arrays import ranks

if TYPE_CHECKING:
    # Reading a run's parameters needs only the names, without torch.
    from explearn.methods.base.explainer import Explainer
    from explearn.predictors.transformer import TransformerPredictor

ANSWERS = "answers"
"""The teacher that is not a method: the classifier itself."""

ENSEMBLE = "ensemble:"
"""Prefix of the name of a teacher that is an ensemble of methods."""


def members(teacher: str) -> list[str]:
    """Return the methods behind a teacher's name: itself, or those of `ensemble:a,b,c`.

    Raises ParamsError for an ensemble of fewer than two methods, or with a repeated method.
    """
    if not teacher.startswith(ENSEMBLE):
        return [teacher]
    names = teacher.removeprefix(ENSEMBLE).split(",")
    if len(names) < 2 or not all(names) or len(set(names)) != len(names):
        raise ParamsError(f"teacher {teacher!r}: expected {ENSEMBLE}NAME,NAME,... with two names or more, each once")
    return names


def make_teacher(teacher: str, teachers: Mapping[str, Mapping[str, Any]], seed: int) -> dict[str, Explainer]:
    """Make the members of a teacher, by name.

    Raises UnknownNameError for one that is not under `teachers`, and as `get_explainer` does.
    """
    for name in members(teacher):
        if name not in teachers:
            raise UnknownNameError("teacher", name, teachers)
    return {name: get_explainer(name, **with_seed(name, teachers[name], seed)) for name in members(teacher)}


def lessons_of(
    methods: Mapping[str, Explainer], classifier: TransformerPredictor, splits: Mapping[str, Sequence[Example]]
) -> Lessons:
    """Explain the predicted class of some texts with the members of a teacher and combine their scores.

    Args:
        methods: by name; see `make_teacher`.
        splits: texts by the name of their split.
    """
    from explearn.methods.base.targets import judged_targets

    lessons = []
    for method in methods.values():
        by_split = {
            split: [*map(lesson_of, method.explain(classifier, examples, judged_targets(classifier, examples)))]
            for split, examples in splits.items()
        }
        lessons.append(Lessons(by_split, method.signed))
    return combine_lessons(lessons)


def lesson_of(attribution: Attribution) -> Lesson:
    """Return the lesson in an attribution; unread words get the text's lowest score."""
    return Lesson(attribution.example_id, attribution.target, np.asarray(attribution.filled(), dtype=np.float64))


def check_lesson(teacher: str, lesson: Lesson, example: Example | None) -> None:
    """Raise DataError unless the lesson's text exists and the lesson has a score for each of its words."""
    words = len(example.all_words) if example else 0
    if len(lesson.weights) != words:
        raise DataError(
            f"teacher {teacher!r}, example {lesson.example_id!r}: {len(lesson.weights)} word scores for a text of "
            f"{words} words; expected one per word, run the stage teach again"
        )


def combine_lessons(lessons: Sequence[Lessons]) -> Lessons:
    """Combine the lessons of an ensemble's members; only texts that every member explained are kept."""
    first, signed = lessons[0], all(one.signed for one in lessons)
    combined: dict[str, list[Lesson]] = {}
    for split, texts in first.by_split.items():
        by_id = [{lesson.example_id: lesson.weights for lesson in one.by_split.get(split, ())} for one in lessons]
        combined[split] = [
            Lesson(text.example_id, text.target, combine_weights([one[text.example_id] for one in by_id], signed))
            for text in texts
            if all(text.example_id in one for one in by_id)
        ]
    return Lessons(combined, signed)


def combine_weights(weights: Sequence[NDArray[Any]], signed: bool) -> NDArray[np.float64]:
    """Combine an ensemble's scores of a text's words: the mean of `scaled_ranks`; of one member, its own scores."""
    if len(weights) == 1:
        return np.asarray(weights[0], dtype=np.float64)
    return np.asarray(np.mean([scaled_ranks(np.asarray(w, dtype=np.float64), signed) for w in weights], axis=0))


def scaled_ranks(weights: NDArray[np.float64], signed: bool) -> NDArray[np.float64]:
    """Rank a text's weights in (0, 1], equal ones sharing their mean; signed: by |w|, with the sign of w."""
    return np.sign(weights) * ranks(np.abs(weights)) / len(weights) if signed else ranks(weights) / len(weights)
