"""What the consensus has learned: a heat map of the signals' coefficients, and points for the other features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from explearn.core.heat import AGAINST, FOR, hexadecimal
from explearn.methods.consensus.report import FIGURE, KINDS, ConsensusWeights, Weight, consensus_weights
from explearn.show.figures.heatmaps import colours
from explearn.show.figures.style import SETTINGS, save_figure
from explearn.show.task_report import TaskReport

# In inches.
_ROW = 0.29
_MARGIN = 0.9
_WIDTH = 8.6

DARK = 0.9
"""Share of the largest coefficient from which a cell's text is white."""


def write_consensus_weights(folder: Path, tasks: Sequence[TaskReport]) -> None:
    """Draw FIGURE into `folder`; nothing where no task has a consensus. The same numbers give the same bytes."""
    found = consensus_weights(tasks)
    if found is None:
        return
    rows = max(len(found.signals), len(found.others))
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(_WIDTH, rows * _ROW + _MARGIN), layout="constrained")
        FigureCanvasSVG(figure)
        left, right = figure.subplots(1, 2, width_ratios=[1, 1])
        _signals(left, found)
        _others(right, found.others)
        save_figure(figure, folder / FIGURE)


def _signals(axes: Any, found: ConsensusWeights) -> None:
    """A row a signal, a column a kind: blue below 0, orange above; intervals without zero in bold."""
    axes.set_title("Signals", fontsize=9, fontweight="bold", loc="left")
    missing = Weight(float("nan"), None, {})
    cells = [[kinds.get(kind, missing) for kind in KINDS] for kinds in found.signals.values()]
    if not cells:
        axes.set_axis_off()
        return
    values = np.array([[weight.mean for weight in row] for row in cells])
    largest = float(np.nanmax(np.abs(values))) or 1.0
    axes.imshow(values, cmap=colours(AGAINST, FOR), vmin=-largest, vmax=largest, aspect="auto")
    axes.set_xticks(range(len(KINDS)), labels=KINDS.values())
    axes.set_yticks(range(len(cells)), labels=found.signals)
    axes.tick_params(length=0)
    for (row, column), value in np.ndenumerate(values):
        axes.text(
            column,
            row,
            "–" if np.isnan(value) else f"{value:+.2f}",
            ha="center",
            va="center",
            fontsize=8,
            fontweight="bold" if cells[row][column].clear else "normal",
            color="white" if abs(value) > DARK * largest else "black",
        )


def _others(axes: Any, others: Mapping[str, Weight]) -> None:
    """A row a feature: the mean as a point with its interval, the tasks as ticks."""
    axes.set_title("Words around, and the word itself", fontsize=9, fontweight="bold", loc="left")
    axes.axvline(0, color="#555555", linewidth=0.9, linestyle="--", zorder=1)
    axes.grid(axis="x", color="#E5E5E5", linewidth=0.6)
    axes.set_axisbelow(True)
    for row, weight in enumerate(others.values()):
        colour = hexadecimal(FOR if weight.mean >= 0 else AGAINST)
        if weight.interval is not None:
            axes.plot(weight.interval, [row, row], color=colour, linewidth=1.8, zorder=2)
        axes.plot(
            list(weight.by_task.values()), [row] * len(weight.by_task), "|", color="#555555", markersize=8, zorder=3
        )
        axes.plot([weight.mean], [row], "o", color=colour, markersize=5, zorder=4)
    axes.set_yticks(range(len(others)), labels=others)
    axes.set_ylim(len(others) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("coefficient (line: interval, ticks: tasks)")
