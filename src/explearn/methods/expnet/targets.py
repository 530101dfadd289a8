"""What ExpNet learns from: how far each word is evidence, by people's marks or by the consensus of signals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from explearn.core.errors import DataError, ParamsError
from explearn.methods.base.task_data import TaskData
from explearn.methods.consensus.aim import check_effects
from explearn.methods.consensus.explainer import marked_texts, source_weights
from explearn.methods.consensus.model import MarkedText, WordModel, fit_model
from explearn.methods.consensus.params import ConsensusParams
from explearn.methods.expnet.params import ExpNetParams

PSEUDO_SPLITS = ("train", "validation")
"""Splits of the texts that the consensus marks."""


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """What to learn from one text.

    targets: float64, (words,), 0 to 1. weight: of each word, beside those of other texts.
    """

    targets: NDArray[np.float64]
    weight: float = 1.0


def soft_targets(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """sigmoid(z) of the consensus's logits, (words,).

    Marked and other words weigh the same in the consensus's training, so that 0.5 lies where they balance, and a
    student has as much to learn of the one as of the other. No number of words to choose plays a part: how much of a
    text is evidence at all is for the consensus to say.
    """
    return np.asarray(1 / (1 + np.exp(-logits)))


def splits_to_learn_from(task: TaskData, options: ExpNetParams) -> tuple[str, ...]:
    """The splits of the texts in `lessons_for`. The consensus needs no marks, and so marks validation texts, too."""
    return (task.rationale_split,) if options.protocol == "in_domain" else PSEUDO_SPLITS


@dataclass(frozen=True, slots=True, eq=False)
class Curriculum:
    """All that ExpNet learns from.

    lessons: example id -> lesson. trained_on: the tasks whose marks play a part. calibration: slope a and offset b that
    make probabilities of the network's logits, sigmoid(a logit + b).
    """

    lessons: Mapping[str, Lesson]
    trained_on: Sequence[str]
    calibration: tuple[float, float] = (1.0, 0.0)


def curriculum_for(task: TaskData, options: ExpNetParams, seed: int) -> Curriculum:
    """What to learn from, as option `protocol` says.

    few_shot gives n marked texts, drawn by seed, s = n / (n + pseudo_weight) of the weight, and the consensus on the
    other texts the rest. With as many marks as there are it is in_domain.

    Targets of people are as rare as marks are, so that the logits need no calibration. Those of the consensus are not:
    calibration is the consensus's, and of few_shot as far between the two as the weight s.

    Raises as `ExpNet.fit` does.
    """
    if options.protocol == "in_domain":
        return Curriculum(marked_lessons(task), [task.name])
    if options.protocol == "universal":
        rest, model, names = _consensus(task, options, seed, {})
        return Curriculum(rest, names, model.calibration)
    marked = marked_lessons(task)
    if options.marks >= len(marked):
        return Curriculum(marked, [task.name])
    drawn = np.random.default_rng(seed).choice(len(marked), options.marks, replace=False)
    ids = list(marked)
    chosen = {ids[i]: marked[ids[i]] for i in sorted(drawn)}
    share = options.marks / (options.marks + options.pseudo_weight)
    rest, model, names = _consensus(task, options, seed, chosen)
    lessons = {key: replace(lesson, weight=share / len(chosen)) for key, lesson in chosen.items()}
    lessons |= {key: replace(lesson, weight=(1 - share) / len(rest)) for key, lesson in rest.items()}
    slope, offset = model.calibration
    return Curriculum(lessons, [*names, task.name], ((1 - share) * slope + share, (1 - share) * offset))


def marked_lessons(task: TaskData) -> dict[str, Lesson]:
    """The marks of the texts that the classifier gets right: elsewhere they speak for another label than its own.

    Raises DataError where there are none.
    """
    split, gold = task.rationale_split, task.gold
    labels = {example.id: example.label for example in task.examples(split)}
    _, features = task.features(split)
    found = {
        row.example_id: Lesson(np.asarray(gold[row.example_id], dtype=np.float64))
        for row in features
        if row.example_id in gold and len(row.word_ids) and row.predicted == labels[row.example_id]
    }
    if not found:
        raise DataError(
            f"task {task.name!r}, split {split!r}: no text has both a rationale and a right prediction; "
            "ExpNet has nothing to learn from"
        )
    return found


def _consensus(
    task: TaskData, options: ExpNetParams, seed: int, marked: Mapping[str, Lesson]
) -> tuple[dict[str, Lesson], WordModel, list[str]]:
    """What the consensus of signals, learned from the other tasks' marks, says of the task's texts.

    Args:
        marked: texts of the task whose marks are known. The consensus learns from them, too, as from one more task that
            weighs n / marks_of_a_task, and they get no lesson here.

    Returns example id -> lesson, the consensus, and the names of the other tasks. No other mark of the task plays a
    part.
    """
    sources = {other.name: texts for other in task.others if (texts := marked_texts(other))}
    if not sources:
        raise ParamsError(
            f"{options.protocol} needs another task than {task.name!r} with marked texts that its classifier gets "
            "right; add one to tasks, or use in_domain"
        )
    check_effects(sources, options.aim)
    others, weights = list(sources), source_weights(task, sources)
    rows = list(chain.from_iterable(task.signals(split) for split in PSEUDO_SPLITS))
    own = [MarkedText(one, task.gold[one.example_id]) for one in rows if one.example_id in marked]
    # Texts that are marked whole have nothing to tell words apart by, and at aim 1 marks play no part.
    if options.aim < 1 and {mark for text in own for mark in text.mask} == {False, True}:
        sources[task.name], weights[task.name] = own, len(own) / options.marks_of_a_task
    model = fit_model(sources, ConsensusParams(bootstrap=0, aim=options.aim), seed, weights=weights)
    lessons = {}
    for signals in rows:
        if signals.example_id in marked or not signals.read.any():
            continue
        targets = np.zeros(len(signals.words))
        targets[signals.read] = soft_targets(model.logits(model.features(signals)))[signals.read]
        lessons[signals.example_id] = Lesson(targets)
    if not lessons:
        raise DataError(f"task {task.name!r}: no text for the consensus to mark; expected one at least")
    return lessons, model, others
