"""What ExpNet learns from: how far each word is evidence, by people's marks or by the consensus of signals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from explearn.core.errors import DataError, ParamsError
from explearn.methods.base.task_data import TaskData
from explearn.methods.consensus.model import MarkedText, fit_model
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


def soft_targets(logits: NDArray[np.float64], chosen: int, sharpness: float) -> NDArray[np.float64]:
    """sigmoid(sharpness (z - z_K)), with z the logits standardised in their text, z_K the largest but K of them.

    Args:
        logits: (words,), the consensus's. chosen: K, the number of words that a reader would mark.

    The K best words have targets above 0.5, however sure the consensus is of the text as a whole.
    """
    spread = logits.std()
    z = (logits - logits.mean()) / (spread if spread > 0 else 1.0)
    border = np.sort(z)[::-1][min(chosen, len(z) - 1)]
    return np.asarray(1 / (1 + np.exp(-sharpness * (z - border))))


def words_to_choose(words: int, density: float) -> int:
    """K of a text: the share of words that people mark elsewhere times its length, rounded, at least 1."""
    return max(1, round(density * words))


def density(masks: Iterable[Sequence[bool] | NDArray[np.float64]]) -> float:
    """Share of marked words, those of all texts together."""
    return float(np.mean(np.concatenate([np.asarray(mask, dtype=bool) for mask in masks])))


def splits_to_learn_from(task: TaskData, options: ExpNetParams) -> tuple[str, ...]:
    """The splits of the texts in `lessons_for`. The consensus needs no marks, and so marks validation texts, too."""
    return (task.rationale_split,) if options.protocol == "in_domain" else PSEUDO_SPLITS


def lessons_for(task: TaskData, options: ExpNetParams, seed: int) -> tuple[dict[str, Lesson], list[str]]:
    """What to learn from, as option `protocol` says: example id -> lesson; and the tasks whose marks play a part.

    few_shot gives n marked texts, drawn by seed, n / (n + pseudo_weight) of the weight, and the consensus on the other
    texts the rest. With as many marks as there are it is in_domain.

    Raises as `ExpNet.fit` does.
    """
    if options.protocol == "in_domain":
        return marked_lessons(task), [task.name]
    if options.protocol == "universal":
        return _consensus(task, options, seed, {}, 0.0)
    marked = marked_lessons(task)
    if options.marks >= len(marked):
        return marked, [task.name]
    drawn = np.random.default_rng(seed).choice(len(marked), options.marks, replace=False)
    ids = list(marked)
    chosen = {ids[i]: marked[ids[i]] for i in sorted(drawn)}
    share = options.marks / (options.marks + options.pseudo_weight)
    rest, names = _consensus(task, options, seed, chosen, share)
    lessons = {key: replace(lesson, weight=share / len(chosen)) for key, lesson in chosen.items()}
    lessons |= {key: replace(lesson, weight=(1 - share) / len(rest)) for key, lesson in rest.items()}
    return lessons, [*names, task.name]


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
    task: TaskData, options: ExpNetParams, seed: int, marked: Mapping[str, Lesson], share: float
) -> tuple[dict[str, Lesson], list[str]]:
    """What the consensus of signals, learned from the other tasks' marks, says of the task's texts.

    Args:
        marked: texts of the task that are left out, since their marks are known.
        share: how much these count in how many words a reader marks, beside the other tasks.

    Returns example id -> lesson, and the names of the other tasks. No other mark of the task plays a part.
    """
    sources = {other.name: _marked_texts(other) for other in task.others}
    sources = {name: texts for name, texts in sources.items() if texts}
    if not sources:
        raise ParamsError(
            f"{options.protocol} needs another task than {task.name!r} with marked texts that its classifier gets "
            "right; add one to tasks, or use in_domain"
        )
    model = fit_model(sources, ConsensusParams(bootstrap=0), seed)
    elsewhere = float(np.mean([density(text.mask for text in texts) for texts in sources.values()]))
    own = density(lesson.targets for lesson in marked.values()) if marked else 0.0
    expected = (1 - share) * elsewhere + share * own
    lessons = {}
    for signals in chain.from_iterable(task.signals(split) for split in PSEUDO_SPLITS):
        if signals.example_id in marked or not signals.read.any():
            continue
        targets = np.zeros(len(signals.words))
        logits = model.logits(model.features(signals))[signals.read]
        targets[signals.read] = soft_targets(logits, words_to_choose(len(logits), expected), options.sharpness)
        lessons[signals.example_id] = Lesson(targets)
    if not lessons:
        raise DataError(f"task {task.name!r}: no text for the consensus to mark; expected one at least")
    return lessons, list(sources)


def _marked_texts(task: TaskData) -> list[MarkedText]:
    """A task's marked texts that its classifier gets right, with their signals."""
    split, gold = task.rationale_split, task.gold
    labels = {example.id: example.label for example in task.examples(split)}
    if not any(key in gold for key in labels):
        return []  # Signals take a forward and two backward passes a text.
    return [
        MarkedText(signals, gold[signals.example_id])
        for signals in task.signals(split)
        if signals.example_id in gold and signals.predicted == labels[signals.example_id]
    ]
