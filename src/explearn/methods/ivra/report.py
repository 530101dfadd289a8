"""The report's section on IvRA: how it was trained, and the coefficients of heads and layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from explearn.methods.results import RunFacts, TaskReport
from explearn.show.blocks import Block, Heading, Paragraph, Picture
from explearn.show.heat_map import draw_heat_map

# In inches.
_CELL = 0.24
_MARGIN = 1.1


def report(run: RunFacts, tasks: Sequence[TaskReport]) -> list[Block]:
    """Return how IvRA's methods were trained on each task, and heat maps of the coefficients that they learned."""
    of = [
        (f"{name}, {task.task}", notes) for task in tasks for name, notes in task.notes.items() if "criteria" in notes
    ]
    if not of:
        return []
    trained = "; ".join(
        f"{name}: for {', '.join(notes['criteria'])}, epoch {notes['best_epoch']} of {notes['trained_epochs']}"
        for name, notes in of
    )
    maps = {name: notes["coefficients"] for name, notes in of}
    layers, heads = np.shape(of[0][1]["coefficients"]["heads"])
    return [
        Heading("IvRA: training, and learned weights of heads and layers"),
        Paragraph(f"Criteria, and the epoch that was best (0: none was better than the start). {trained}."),
        Paragraph("Coefficients of heads (left) and layers (right), as differences from their mean."),
        Picture(
            "figures/coefficients.svg",
            "Coefficients of heads and layers",
            "Heat maps of heads and layers",
            ((heads + 3) * _CELL + 2 * _MARGIN, len(maps) * (layers * _CELL + _MARGIN)),
            partial(_draw, maps),
        ),
    ]


def _draw(maps: Mapping[str, Mapping[str, Any]], figure: Any) -> None:
    heads = np.shape(next(iter(maps.values()))["heads"])[1]
    grid = figure.subplots(len(maps), 2, squeeze=False, width_ratios=[heads, 1.5])
    for (left, right), (title, coefficients) in zip(grid, maps.items(), strict=True):
        right.set_visible("layers" in coefficients)
        for axes, name in ((left, "heads"), (right, "layers")):
            if name in coefficients:
                values = np.atleast_2d(np.array(coefficients[name]))
                values = values if name == "heads" else values.T
                rows, columns = ([str(index + 1) for index in range(size)] for size in values.shape)
                head = title if name == "heads" else "layers"
                draw_heat_map(axes, values - values.mean(), rows, columns if name == "heads" else [""], head)
        left.set_xlabel("head")
        left.set_ylabel("layer")
