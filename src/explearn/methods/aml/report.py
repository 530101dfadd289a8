"""The report's section on AML: how pAML was trained, and by which metric fAML chose its maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explearn.methods.results import RunFacts, TaskReport
from explearn.metrics.registry import CATALOGUE
from explearn.show.blocks import Block, Fold, Heading, Paragraph, Table, bold, columns, figure


def report(run: RunFacts, tasks: Sequence[TaskReport]) -> list[Block]:
    """Return how AML's methods were trained on each task, and which metric they optimise."""
    of = [(task, method, notes) for task in tasks for method, notes in task.notes.items()]
    trained = [(task, method, notes) for task, method, notes in of if "epochs" in notes]
    refined = [(task, method, notes) for task, method, notes in of if "judged" in notes]
    blocks: list[Block] = []
    if trained:
        texts = ["Method", "Task", "Loss weights", "Metric on validation texts"]
        rows = [_training(task.task, method, notes) for task, method, notes in trained]
        methods = [method for _, method, _ in trained]
        blocks.append(
            Table(
                columns(texts, ["At first", "Kept", "Epoch"]),
                rows,
                "Training (epoch 0: no epoch was better than the start)",
                methods,
            )
        )
    if refined:
        names = ", ".join(dict.fromkeys(method for _, method, _ in refined))
        sentence = (
            f"{bold(f'{names} sees the metric while it explains.')} Of all maps that it tries for a text, it keeps "
            "the one that is best by a metric on that same text. Read its figures with that in mind."
        )
        blocks += [Paragraph(sentence), *(_refinement(*part) for part in refined)]
    return [Heading("AML: training, and the metric that is optimised"), *blocks] if blocks else []


def _training(task: str, method: str, notes: Mapping[str, Any]) -> list[str]:
    values = [epoch["metric"] for epoch in notes["epochs"]]
    best = notes["best_epoch"]
    weights = ", ".join(f"{name} {value:.2f}" for name, value in notes["weights"].items())
    weights += f" (best of {notes['trials']} trials)" if notes["trials"] else ""
    epoch = f"{best} of {len(values) - 1}"
    return [method, task, weights, notes["metric"], figure(values[0]), figure(values[best]), epoch]


def _refinement(task: TaskReport, method: str, notes: Mapping[str, Any]) -> Block:
    figures = task.methods.get(method, {})
    sentence = f"{method} on {task.task}: {notes['steps']:.1f} steps per text, best by {notes['optimised_for']}"
    forward, backward = figures.get("forward_passes"), figures.get("backward_passes")
    if forward is not None and backward is not None:
        sentence += f"; {forward:,.0f} forward and {backward:,.0f} backward passes through the classifier per text"
    judged = notes["judged"]
    if len(judged) < 2:
        return Paragraph(f"{sentence}.")
    arrows = {name: "↑" if CATALOGUE[name].larger_is_better else "↓" for name in judged}
    heads = columns(["Map chosen by"], [f"{name} {arrow}" for name, arrow in arrows.items()])
    rows = [[by, *(figure(judged[by][name]) for name in judged)] for by in judged]
    caption = "Maps from the same steps, chosen by one metric (row) and evaluated by another (column)"
    return Fold(sentence, [Table(heads, rows, caption)])
