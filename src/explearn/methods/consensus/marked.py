"""The marked texts that a consensus learns from. What computes signals is not needed to read them."""

from __future__ import annotations

from collections.abc import Iterable

from explearn.methods.base.task import TaskData
from explearn.methods.consensus.model import MarkedText, weight_of_skill


def marked_texts(task: TaskData) -> list[MarkedText]:
    """The texts of a task's training rationales that have marks and a right prediction, with their signals."""
    gold, split = task.gold, task.rationale_split
    labels = {example.id: example.label for example in task.examples(split) if example.id in gold}
    if not labels:
        return []
    return [
        MarkedText(text, gold[text.example_id])
        for text in task.signals(split)
        if text.example_id in labels and text.predicted == labels[text.example_id] and text.read.any()
    ]


def source_weights(task: TaskData, names: Iterable[str]) -> dict[str, float]:
    """How much each of the other tasks named counts, by its classifier's skill."""
    skills = {one.name: one.skill for one in task.others}
    return {name: weight_of_skill(skills[name]) for name in names}
