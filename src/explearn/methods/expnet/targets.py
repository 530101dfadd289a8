"""What ExpNet learns from: how far each word is evidence, by people's marks or by the consensus of signals."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from explearn.core.errors import DataError, ParamsError
from explearn.lens.word_signals import WordSignals
from explearn.methods.base.task import TaskData
from explearn.methods.consensus.aim import check_effects
from explearn.methods.consensus.marked import marked_texts, source_weights
from explearn.methods.consensus.model import MarkedText, TaskRows, WordModel, fit_rows, task_rows
from explearn.methods.consensus.params import ConsensusParams
from explearn.methods.consensus.word_features import word_matrix
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


def curriculum_for(
    task: TaskData,
    options: ExpNetParams,
    seed: int,
    sources: Sources | None = None,
    chosen: Collection[str] | None = None,
) -> Curriculum:
    """What to learn from, as option `protocol` says.

    few_shot gives n marked texts, drawn by seed, s = n / (n + pseudo_weight) of the weight, and the consensus on the
    other texts the rest. With as many marks as there are it is in_domain.

    Targets of people are as rare as marks are, so that the logits need no calibration. Those of the consensus are not:
    calibration is the consensus's, and of few_shot as far between the two as the weight s.

    Args:
        sources: what the consensus learns from besides the task's own marks (default: read now, by `seed`).
        chosen: few_shot: ids of the marked texts (default: `options.marks` of them, drawn by seed).

    Raises as `ExpNet.fit` does.
    """
    if options.protocol == "in_domain":
        return Curriculum(marked_lessons(task), [task.name])
    if options.protocol == "universal":
        sources = sources or read_sources(task, options.protocol, seed, options.aim)
        rest, model, names = _consensus(task, options, sources, {})
        return Curriculum(rest, names, model.calibration)
    marked = marked_lessons(task)
    if chosen is None:
        if options.marks >= len(marked):
            return Curriculum(marked, [task.name])
        ids = list(marked)
        chosen = {ids[i] for i in np.random.default_rng(seed).choice(len(ids), options.marks, replace=False)}
    own = {key: lesson for key, lesson in marked.items() if key in chosen}
    if not own:
        raise DataError(f"task {task.name!r}: none of the texts chosen has marks and a right prediction; expected one")
    share = len(own) / (len(own) + options.pseudo_weight)
    sources = sources or read_sources(task, options.protocol, seed, options.aim)
    rest, model, names = _consensus(task, options, sources, own)
    lessons = {key: replace(lesson, weight=share / len(own)) for key, lesson in own.items()}
    lessons |= {key: replace(lesson, weight=(1 - share) / len(rest)) for key, lesson in rest.items()}
    slope, offset = model.calibration
    return Curriculum(lessons, [*names, task.name], ((1 - share) * slope + share, (1 - share) * offset))


def marked_lessons(task: TaskData) -> dict[str, Lesson]:
    """The marks of the texts that the classifier gets right: elsewhere they speak for another label than its own.

    Raises DataError where there are none, or where all of their words are marked, or no word is.
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
        named = sorted({labels[example_id] for example_id in gold if example_id in labels})
        if named and not set(named) & set(task.classifier.labels):
            raise DataError(
                f"task {task.name!r}, split {split!r}: the marked texts' labels ({_few(named)}) are none of the "
                f"classifier's classes ({_few(task.classifier.labels)}); ExpNet learns from texts that it gets right"
            )
        raise DataError(
            f"task {task.name!r}, split {split!r}: no text has both a rationale and a right prediction; "
            "ExpNet has nothing to learn from"
        )
    kinds = {bool(marked) for lesson in found.values() for marked in lesson.targets}
    if len(kinds) < 2:
        which = "every word is marked in each" if True in kinds else "no word is marked in any"
        raise DataError(
            f"task {task.name!r}, split {split!r}: {which} of the {len(found)} texts to learn from; expected marked "
            "words and others"
        )
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """What the consensus learns from besides a task's own marks, and the task's texts that it is to mark.

    names, rows: of the other tasks. texts: of PSEUDO_SPLITS. features: of each of them, (words, F). generator: draws
    which signals are missing in copies of the task's own marked texts. options: of the consensus.
    """

    names: Sequence[str]
    rows: Sequence[TaskRows]
    texts: Sequence[WordSignals]
    features: Sequence[NDArray[np.float64]]
    generator: np.random.Generator
    options: ConsensusParams

    def consensus(self, task: TaskData, options: ExpNetParams, marked: Collection[str]) -> WordModel:
        """The consensus of the other tasks' marks and those of some texts of the task's own, by their ids.

        The task's own count as one more task that weighs n / marks_of_a_task.
        """
        own = [MarkedText(one, task.gold[one.example_id]) for one in self.texts if one.example_id in marked]
        rows = list(self.rows)
        # Texts that are marked whole have nothing to tell words apart by, and at aim 1 marks play no part.
        if self.options.aim < 1 and {mark for text in own for mark in text.mask} == {False, True}:
            share = len(own) / options.marks_of_a_task
            rows.append(task_rows(task.name, own, self.options, share, deepcopy(self.generator)))
        return fit_rows(rows, self.options)


def read_sources(task: TaskData, protocol: str, seed: int, aim: float = 0.0) -> Sources:
    """Read what the consensus learns from. The seed decides which signals are missing in copies of texts.

    `protocol` is what an error names; `aim` as in ExpNetParams.

    Raises ParamsError where no other task has marks, or has no removal effects at an aim above 0.
    """
    taught = ConsensusParams(bootstrap=0, aim=aim)
    found = {other.name: texts for other in task.others if (texts := marked_texts(other))}
    if not found:
        raise ParamsError(
            f"{protocol} needs another task than {task.name!r} with marked texts that its classifier gets "
            "right; add one to tasks, or use in_domain"
        )
    check_effects(found, aim)
    shares, generator = source_weights(task, found), np.random.default_rng(seed)
    rows = [task_rows(name, texts, taught, shares[name], generator) for name, texts in found.items()]
    own = list(chain.from_iterable(task.signals(split) for split in PSEUDO_SPLITS))
    features = [word_matrix(one, taught.signals, taught.word_features) for one in own]
    return Sources(list(found), rows, own, features, generator, taught)


def _few(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")


def _consensus(
    task: TaskData, options: ExpNetParams, sources: Sources, marked: Mapping[str, Lesson]
) -> tuple[dict[str, Lesson], WordModel, list[str]]:
    """What the consensus of signals says of the task's texts.

    Args:
        sources: what it learns from.
        marked: texts of the task whose marks are known. The consensus learns from them, too, and they get no lesson
            here.

    Returns example id -> lesson, the consensus, and the names of the other tasks. No other mark of the task plays a
    part.
    """
    model = sources.consensus(task, options, marked)
    lessons = {}
    for signals, features in zip(sources.texts, sources.features, strict=True):
        if signals.example_id in marked or not signals.read.any():
            continue
        targets = np.zeros(len(signals.words))
        targets[signals.read] = soft_targets(model.logits(features))[signals.read]
        lessons[signals.example_id] = Lesson(targets)
    if not lessons:
        raise DataError(f"task {task.name!r}: no text for the consensus to mark; expected one at least")
    return lessons, model, list(sources.names)
