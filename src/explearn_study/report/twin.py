"""The section on how methods rank where faithfulness is measured on a twin of the classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from explearn.evaluation import Figures
from explearn.methods.results import RunFacts, TaskReport
from explearn.metrics.arrays import correlation, ranks
from explearn.metrics.registry import CATALOGUE
from explearn.report.verdict import MODEL, counted_tasks, means
from explearn.show.blocks import Block, Fold, Heading, Paragraph, Table, columns, figure

FAR = 3
"""Most places that a method may move without being named."""


def twin_blocks(run: RunFacts, tasks: Sequence[TaskReport], twins: Mapping[str, Mapping[str, Figures]]) -> list[Block]:
    """Return the section: how far the two orders of the methods agree, who moves far, and a folded table.

    Args:
        run: facts about the run.
        tasks: its results on each task.
        twins: task -> method -> its figures on the twin; empty if no twin was trained.
    """
    if not twins:
        return []
    counted = counted_tasks(run, tasks)
    on_twins = means(run, MODEL, [replace(task, methods=twins[task.task]) for task in counted])
    on_classifiers = means(run, MODEL, counted)
    methods = [method for method in on_classifiers if method in on_twins]
    before = np.array([on_classifiers[method] for method in methods])
    after = np.array([on_twins[method] for method in methods])
    # Rank 1 is the largest value.
    places = ranks([-before, -after])
    rho = float(correlation(places[0], places[1]))
    rows = []
    moved = []
    for row in places[0].argsort():
        first, second = (f"{place:g}" for place in places[:, row])
        rows.append([methods[row], figure(before[row]), first, figure(after[row]), second])
        if abs(places[0, row] - places[1, row]) > FAR:
            moved.append(f"{methods[row]} (from place {first} to {second})")
    title = CATALOGUE[MODEL].heading
    sentence = (
        "On a twin of each classifier, fine-tuned with words removed at random, so that shortened texts are no news to "
        f"it (F-Fidelity, Zheng et al. 2025), the order of the methods by {title} has a rank correlation of {rho:.2f} "
        f"with that on the classifiers; moved by more than {FAR} places: {', '.join(moved) or 'none'}."
    )
    table = Table(columns(["Method"], [title, "Place", f"{title}, twin", "Place, twin"]), rows)
    return [Heading("Removal inside the distribution"), Paragraph(sentence), Fold("Places of all methods", [table])]
