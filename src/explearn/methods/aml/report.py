"""The report's section on AML: how pAML was trained, and by which metric fAML chose its maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explearn.metrics.registry import CATALOGUE
from explearn.show.blocks import Block, Fold, Heading, Table, columns, figure


def section(notes: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[Block]:
    """Return how AML's methods were trained on each task, and what the maps that fAML chose are worth.

    Args:
        notes: task -> method -> its notes.
    """
    rows: list[list[str]] = []
    methods: list[str] = []
    judged: list[str] = []
    maps: list[list[str]] = []
    refined: list[str] = []
    for task, by_method in notes.items():
        for method, noted in by_method.items():
            if "metric" in noted:
                rows.append([method, task, *_training(noted)])
                methods.append(method)
            for chooser, values in noted.get("judged", {}).items():
                judged = list(values)
                refined.append(method)
                maps.append([method, task, chooser, *(figure(values[name]) for name in judged)])
    blocks: list[Block] = []
    if rows:
        heads = columns(["Method", "Task", "Loss weights", "Metric on validation texts"], ["At first", "Kept"])
        blocks.append(Table(heads, rows, "Training", methods))
    if maps:
        heads = columns(["Method", "Task", "Map chosen by"], [CATALOGUE[name].title for name in judged])
        blocks.append(
            Table(heads, maps, "Maps from the same steps, chosen by one metric and evaluated by others", refined)
        )
    if not blocks:
        return []
    return [Heading("AML"), Fold("Training, and the metric that chooses explanations", blocks)]


def _training(noted: Mapping[str, Any]) -> list[str]:
    """Return how a method was trained on a task: loss weights, metric, its first and its kept value."""
    values = [epoch["metric"] for epoch in noted["epochs"]]
    weights = ", ".join(f"{name} {value:.2f}" for name, value in noted["weights"].items())
    if noted["trials"]:
        weights += f" (best of {noted['trials']} trials)"
    return [weights, noted["metric"], figure(values[0]), figure(values[noted["best_epoch"]])]
