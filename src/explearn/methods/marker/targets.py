"""Marker's training targets: how far each word is evidence, by marked words or by the consensus of signals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from explearn.core.arrays import Array
from explearn.core.errors import DataError, ParamsError, shown
from explearn.lens.word_signals import WordSignals
from explearn.methods.base.task import TaskData
from explearn.methods.consensus.explainer import Consensus
from explearn.methods.consensus.model import MarkedText, marked_texts, source_weights
from explearn.methods.consensus.signals import signals_of
from explearn.methods.marker.params import MarkerParams

PSEUDO_SPLITS = ("train", "validation")
"""Splits of the texts that the consensus marks: it needs no marks, so validation texts are used, too."""

CONSENSUS_TEXTS = 60.0
"""Number of marked texts that weigh as much as the consensus: n of them have n / (n + 60) of the weight in training."""

TEXTS_OF_A_TASK = 20.0
"""Number of marked texts that weigh as much in the consensus's own training as a task whose classifier is always
right."""


class WordTargets(NamedTuple):
    """Targets of one text.

    Attributes:
        targets: float64, (words,), 0 to 1.
        weight: weight of each word, relative to the words of other texts.
    """

    targets: Array
    weight: float = 1.0


class Curriculum(NamedTuple):
    """All that Marker learns from.

    Attributes:
        texts: example id -> targets.
        trained_on: the tasks whose marks play a part.
        calibration: slope a and offset b of the probability sigmoid(a logit + b).
    """

    texts: Mapping[str, WordTargets]
    trained_on: Sequence[str]
    calibration: tuple[float, float] = (1.0, 0.0)


class Sources(NamedTuple):
    """What the consensus learns from and what it is to mark.

    Without other tasks the consensus is the one that comes with the package.

    Attributes:
        others: other task -> its marked texts.
        weights: other task -> its weight.
        texts: the task's texts, to be marked by the consensus.
    """

    others: Mapping[str, list[MarkedText]]
    weights: Mapping[str, float]
    texts: Sequence[WordSignals]


def read_sources(task: TaskData, protocol: str) -> Sources:
    """Read the texts that the consensus learns from and marks.

    Raises:
        ParamsError: there are other tasks and none has marks; the message names `protocol`.
    """
    others = {}
    for other in task.others:
        marked = marked_texts(other)
        if marked:
            others[other.name] = marked
    if task.others and not others:
        raise ParamsError(
            f"{protocol} learns from marked texts of other tasks than {task.name!r} that their classifiers get right, "
            "and there are none; add a task with marks, or use in_domain"
        )
    texts = list(chain.from_iterable(signals_of(task, split) for split in PSEUDO_SPLITS))
    return Sources(others, source_weights(task, others), texts)


def curriculum_for(task: TaskData, options: MarkerParams, sources: Sources | None = None) -> Curriculum:
    """Choose what to learn from, as option `protocol` says.

    few_shot gives n marked texts, drawn by seed, s = n / (n + CONSENSUS_TEXTS) of the weight, and the consensus on the
    other texts the rest. With as many marks as there are it is in_domain.

    Targets from marks are as rare as these, so the logits need no calibration. Those from the consensus are not: the
    calibration is the consensus's, and for few_shot the mean of the two with weights s and 1 - s.

    Args:
        task: the data to learn from.
        options: options of Marker.
        sources: texts for the consensus. None: read now.

    Raises:
        DataError: there is nothing to learn from; see `marked_targets` and `consensus_targets`.
        ParamsError: see `read_sources`.
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
    others = list(sources.others) or consensus.trained_on
    slope, offset = consensus.model.calibration.tolist()
    if not marked:
        return Curriculum(texts, others, (slope, offset))
    share = len(marked) / (len(marked) + CONSENSUS_TEXTS)
    calibration = ((1 - share) * slope + share, (1 - share) * offset)
    weighted = {**_reweighted(marked, share), **_reweighted(texts, 1 - share)}
    return Curriculum(weighted, [*others, task.name], calibration)


def _reweighted(texts: Mapping[str, WordTargets], total: float) -> dict[str, WordTargets]:
    """Return the texts with equal weights that sum to `total`."""
    return {key: text._replace(weight=total / len(texts)) for key, text in texts.items()}


def marked_targets(task: TaskData) -> dict[str, WordTargets]:
    """Return the marks of the texts that the classifier gets right: elsewhere they are evidence for another label.

    Raises:
        DataError: there are none, or all of their words are marked, or no word is.
    """
    split = task.rationale_split
    gold = task.gold
    where = f"task {task.name!r}, split {split!r}"
    labels = {example.id: example.label for example in task.examples(split)}
    _, features = task.features(split)
    marked = {}
    for row in features:
        if row.example_id in gold and len(row.word_ids) and row.predicted == labels[row.example_id]:
            marked[row.example_id] = WordTargets(np.asarray(gold[row.example_id], dtype=np.float64))
    if not marked:
        named = sorted({labels[example_id] for example_id in gold if example_id in labels})
        raise DataError(
            f"{where}: no text has both a rationale and a right prediction; Marker has nothing to learn from (labels "
            f"of marked texts: {shown(named)}; classes: {shown(list(task.classifier.labels))})"
        )
    marks = np.concatenate([text.targets for text in marked.values()])
    if marks.min() == marks.max():
        which = "every word is marked in each" if marks.any() else "no word is marked in any"
        raise DataError(f"{where}: {which} of the {len(marked)} texts to learn from; expected marked words and others")
    return marked


def consensus_targets(
    task: TaskData, options: MarkerParams, sources: Sources, marked: Mapping[str, WordTargets]
) -> tuple[dict[str, WordTargets], Consensus]:
    """Let the consensus mark the task's texts: sigmoid(z) of its logits z.

    Marked and other words weigh the same in the consensus's training, so that 0.5 is neutral. The number of words that
    are evidence is not prescribed.

    Args:
        task: the task.
        options: options of Marker.
        sources: the other tasks' marks, and the texts.
        marked: texts of the task whose marks are known; n of them teach the consensus as one more task of the weight
            n / TEXTS_OF_A_TASK, and get no target here.

    Returns:
        Example id -> targets, and the consensus.

    Raises:
        DataError: there is no text for the consensus to mark.
    """
    tasks = dict(sources.others)
    weights = dict(sources.weights)
    consensus = Consensus(seed=options.seed)
    if tasks:
        own = [MarkedText(text, task.gold[text.example_id]) for text in sources.texts if text.example_id in marked]
        marks = set(chain.from_iterable(text.mask for text in own))
        # Nothing tells words apart if all are marked.
        if marks == {False, True}:
            tasks[task.name] = own
            weights[task.name] = len(own) / TEXTS_OF_A_TASK
        consensus.fit_tasks(tasks, weights=weights)
    model = consensus.model
    texts = {}
    for text in sources.texts:
        if text.example_id not in marked and text.read.any():
            evidence = expit(model.logits(model.features(text)))
            texts[text.example_id] = WordTargets(np.where(text.read, evidence, 0.0))
    if not texts:
        raise DataError(f"task {task.name!r}: no text for the consensus to mark; expected one at least")
    return texts, consensus
