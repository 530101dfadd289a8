"""What ExpNet learns from: how far each word is evidence, by people's marks or by the consensus of signals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explearn.core.errors import DataError
from explearn.methods.base.task_data import TaskData
from explearn.methods.expnet.params import ExpNetParams


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


def density(marks: Mapping[str, Sequence[bool]]) -> float:
    """Share of marked words in the texts that have any."""
    return float(np.mean(np.concatenate([np.asarray(mask, dtype=bool) for mask in marks.values()])))


def lessons_for(task: TaskData, options: ExpNetParams, seed: int) -> tuple[dict[str, Lesson], list[str]]:
    """What to learn from, as option `protocol` says: example id -> lesson; and the tasks whose marks play a part.

    Raises as `ExpNet.fit` does.
    """
    if options.protocol == "in_domain":
        return marked_lessons(task), [task.name]
    raise NotImplementedError


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
