"""The report's section on AML: how pAML was trained, and by which metric fAML chose its maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explearn.methods.results import RunFacts, TaskReport
from explearn.metrics.registry import CATALOGUE
from explearn.show.blocks import Block, Fold, Heading, Paragraph, Table, bold, columns, figure


def report(run: RunFacts, tasks: Sequence[TaskReport]) -> list[Block]:
    """Return how AML's methods were trained on each task, and which metric they optimise."""
    rows: list[list[str]] = []
    methods: list[str] = []
    searches: list[str] = []
    refined: list[str] = []
    maps: list[list[str]] = []
    judged: list[str] = []
    for task in tasks:
        for method, notes in task.notes.items():
            if "epochs" in notes:
                rows.append(training_row(task.task, method, notes))
                methods.append(method)
            if "judged" in notes:
                searches.append(search(task, method, notes))
                judged = list(notes["judged"])
                for chooser, values in notes["judged"].items():
                    refined.append(method)
                    maps.append([method, task.task, chooser, *(figure(values[name]) for name in judged)])
    blocks: list[Block] = []
    if rows:
        heads = columns(["Method", "Task", "Loss weights", "Metric on validation texts"], ["At first", "Kept", "Epoch"])
        blocks.append(Table(heads, rows, "Training (epoch 0: no epoch was better than the start)", methods))
    if refined:
        warning = bold(f"{', '.join(dict.fromkeys(refined))} sees the metric while it explains.")
        explanation = (
            "Of all maps that it tries for a text, it keeps the one that is best by a metric on that same text. Read "
            "its figures with that in mind."
        )
        heads = columns(["Method", "Task", "Map chosen by"], [CATALOGUE[name].title for name in judged])
        table = Table(heads, maps, "Maps from the same steps, chosen by one metric and evaluated by others", refined)
        blocks += [Paragraph(f"{warning} {explanation}"), Fold("; ".join(searches), [table], page_only=True)]
    if not blocks:
        return []
    return [Heading("AML: training, and the metric that is optimised"), *blocks]


def training_row(task: str, method: str, notes: Mapping[str, Any]) -> list[str]:
    """Return how a method was trained on a task: a row of the table."""
    values = [epoch["metric"] for epoch in notes["epochs"]]
    best = notes["best_epoch"]
    weights = ", ".join(f"{name} {value:.2f}" for name, value in notes["weights"].items())
    if notes["trials"]:
        weights += f" (best of {notes['trials']} trials)"
    epoch = f"{best} of {len(values) - 1}"
    return [method, task, weights, notes["metric"], figure(values[0]), figure(values[best]), epoch]


def search(task: TaskReport, method: str, notes: Mapping[str, Any]) -> str:
    """Return by what a method searched for a map, and what that cost."""
    sentence = f"{method} on {task.task}: {notes['steps']:.1f} steps per text, best by {notes['optimised_for']}"
    figures = task.methods.get(method, {})
    forward = figures.get("forward_passes")
    backward = figures.get("backward_passes")
    if forward is not None and backward is not None:
        sentence += f"; {forward:,.0f} forward and {backward:,.0f} backward passes through the classifier per text"
    return sentence
