"""The texts on which benchmarks judge how well explanations agree with marked words."""

from __future__ import annotations

import numpy as np

from explearn.core.examples import Example
from explearn.metrics.plausibility import rationale_k
from explearn_study.train import WorkspaceTask


def judged_texts(task: WorkspaceTask, most: int) -> list[Example]:
    """Return those of the first `most` test texts with marks that the classifier gets right."""
    marked = [example for example in task.examples("test") if example.id in task.gold][:most]
    predicted = task.classifier.predict(marked)
    return [example for example, label in zip(marked, predicted, strict=True) if label == example.label]


def words_to_choose(task: WorkspaceTask) -> int:
    """Return K of the top-K rule: the mean number of words marked in a training text."""
    lengths = []
    for example in task.examples(task.rationale_split):
        if example.id in task.gold:
            lengths.append(sum(task.gold[example.id]))
    return rationale_k(float(np.mean(lengths)))
