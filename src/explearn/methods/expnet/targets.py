"""ExpNet's training targets: how far each word is evidence, by people's marks or by the consensus of signals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from explearn.core.errors import DataError, ParamsError
from explearn.lens.word_signals import WordSignals
from explearn.methods.base.task import TaskData
from explearn.methods.consensus.explainer import Consensus
from explearn.methods.consensus.model import MarkedText, marked_texts, source_weights
from explearn.methods.expnet.params import ExpNetParams

PSEUDO_SPLITS = ("train", "validation")
"""Splits of the texts that the consensus marks. It needs no marks, and so marks validation texts, too."""

CONSENSUS_TEXTS = 60.0
"""Marked texts that the consensus weighs as much as: n marked texts have n / (n + 60) of the weight in training."""

TEXTS_OF_A_TASK = 20.0
"""Marked texts of the task that weigh as much in the consensus's own training as a task whose classifier makes no
mistake."""


@dataclass(frozen=True, slots=True, eq=False)
class WordTargets:
    """Targets of one text.

    targets: float64, (words,), 0 to 1. weight: of each word, relative to those of other texts.
    """

    targets: NDArray[np.float64]
    weight: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Curriculum:
    """All that ExpNet learns from.

    texts: example id -> targets. trained_on: the tasks whose marks play a part. calibration: slope a and offset b that
    make probabilities of the network's logits, sigmoid(a logit + b).
    """

    texts: Mapping[str, WordTargets]
    trained_on: Sequence[str]
    calibration: tuple[float, float] = (1.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """Marked texts of other tasks with the weight of each task, and the task's texts that the consensus is to mark.

    Without other tasks the consensus is the one that comes with the package.
    """

    others: Mapping[str, list[MarkedText]]
    weights: Mapping[str, float]
    texts: Sequence[WordSignals]


def read_sources(task: TaskData, protocol: str) -> Sources:
    """Read the texts that the consensus learns from and marks.

    Raises ParamsError, naming `protocol`, where there are other tasks and none has marks.
    """
    others = {other.name: marked for other in task.others if (marked := marked_texts(other))}
    if task.others and not others:
        raise ParamsError(
            f"{protocol} learns from marked texts of other tasks than {task.name!r} that their classifiers get right, "
            "and there are none; add a task with marks, or use in_domain"
        )
    texts = list(chain.from_iterable(task.signals(split) for split in PSEUDO_SPLITS))
    return Sources(others, source_weights(task, others), texts)


def curriculum_for(task: TaskData, options: ExpNetParams, sources: Sources | None = None) -> Curriculum:
    """Choose what to learn from, as option `protocol` says.

    few_shot gives n marked texts, drawn by seed, s = n / (n + CONSENSUS_TEXTS) of the weight, and the consensus on the
    other texts the rest. With as many marks as there are it is in_domain.

    Targets of people are as rare as marks are, so that the logits need no calibration. Those of the consensus are not:
    calibration is the consensus's, and of few_shot as far between the two as the weight s.

    Args:
        sources: for the consensus (default: read now).

    Raises as `ExpNet.fit` does.
    """
    marked: dict[str, WordTargets] = {}
    if options.protocol != "universal":
        marked = marked_targets(task)
        if options.protocol == "in_domain" or options.marks >= len(marked):
            return Curriculum(marked, [task.name])
        ids = list(marked)
        drawn = np.random.default_rng(options.seed).choice(len(ids), options.marks, replace=False)
        marked = {ids[i]: marked[ids[i]] for i in sorted(drawn)}
    sources = sources or read_sources(task, options.protocol)
    texts, consensus = consensus_targets(task, options, sources, marked)
    others, (slope, offset) = list(sources.others) or consensus.trained_on, consensus.model.calibration
    if not marked:
        return Curriculum(texts, others, (slope, offset))
    share = len(marked) / (len(marked) + CONSENSUS_TEXTS)
    weighted = {key: replace(one, weight=share / len(marked)) for key, one in marked.items()}
    weighted |= {key: replace(one, weight=(1 - share) / len(texts)) for key, one in texts.items()}
    calibration = ((1 - share) * slope + share, (1 - share) * offset)
    return Curriculum(weighted, [*others, task.name], calibration)


def marked_targets(task: TaskData) -> dict[str, WordTargets]:
    """Return the marks of the texts that the classifier gets right: elsewhere they speak for another label.

    Raises DataError where there are none, or where all of their words are marked, or no word is.
    """
    split, gold = task.rationale_split, task.gold
    where = f"task {task.name!r}, split {split!r}"
    labels = {example.id: example.label for example in task.examples(split)}
    _, features = task.features(split)
    marked = {
        row.example_id: WordTargets(np.asarray(gold[row.example_id], dtype=np.float64))
        for row in features
        if row.example_id in gold and len(row.word_ids) and row.predicted == labels[row.example_id]
    }
    if not marked:
        named = sorted({labels[example_id] for example_id in gold if example_id in labels})
        if named and not set(named) & set(task.classifier.labels):
            raise DataError(
                f"{where}: the marked texts' labels ({_few(named)}) are none of the classifier's classes "
                f"({_few(task.classifier.labels)}); ExpNet learns from texts that it gets right"
            )
        raise DataError(
            f"{where}: no text has both a rationale and a right prediction; ExpNet has nothing to learn from"
        )
    kinds = {bool(mark) for one in marked.values() for mark in one.targets}
    if len(kinds) < 2:
        which = "every word is marked in each" if True in kinds else "no word is marked in any"
        raise DataError(f"{where}: {which} of the {len(marked)} texts to learn from; expected marked words and others")
    return marked


def _few(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")


def consensus_targets(
    task: TaskData, options: ExpNetParams, sources: Sources, marked: Mapping[str, WordTargets]
) -> tuple[dict[str, WordTargets], Consensus]:
    """Let the consensus mark the task's texts: sigmoid(z) of its logits z.

    Marked and other words weigh the same in the consensus's training, so that 0.5 lies where they balance. No number of
    words to choose plays a part: how much of a text is evidence at all is for the consensus to say.

    Args:
        sources: the other tasks' marks, and the texts.
        marked: texts of the task whose marks are known; they teach the consensus as one more task that weighs
            n / TEXTS_OF_A_TASK, and get no target here.

    Returns example id -> targets, and the consensus.
    """
    tasks, weights = dict(sources.others), dict(sources.weights)
    consensus = Consensus(seed=options.seed)
    if tasks:
        of_task = [MarkedText(one, task.gold[one.example_id]) for one in sources.texts if one.example_id in marked]
        # Texts that are marked whole have nothing to tell words apart by.
        if {mark for text in of_task for mark in text.mask} == {False, True}:
            tasks[task.name], weights[task.name] = of_task, len(of_task) / TEXTS_OF_A_TASK
        consensus.fit_tasks(tasks, weights=weights)
    model, texts = consensus.model, {}
    for one in sources.texts:
        if one.example_id not in marked and one.read.any():
            evidence = 1 / (1 + np.exp(-model.logits(model.features(one))))
            texts[one.example_id] = WordTargets(np.where(one.read, evidence, 0.0))
    if not texts:
        raise DataError(f"task {task.name!r}: no text for the consensus to mark; expected one at least")
    return texts, consensus
