"""Heat maps: coefficients of heads and layers, and relative gains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from explearn.core.heat import AGAINST, FOR, Colour, colour_map
from explearn.show.figures.style import SETTINGS, save_figure
from explearn.show.gains import GainMap
from explearn.show.task_report import TaskReport

# In inches.
_CELL = 0.24
_MARGIN = 1.1


def write_coefficients(path: Path, tasks: Sequence[TaskReport]) -> None:
    """Draw the coefficients of heads (left) and layers (right) that each explainer with its own classifier learned."""
    found = [(task.task, name, of["coefficients"]) for task in tasks for name, of in task.own_models.items()]
    with matplotlib.rc_context(SETTINGS):
        layers, heads = np.shape(found[0][2]["heads"])
        figure = Figure(
            figsize=((heads + 3) * _CELL + 2 * _MARGIN, len(found) * (layers * _CELL + _MARGIN)), layout="constrained"
        )
        FigureCanvasSVG(figure)
        grid = figure.subplots(len(found), 2, squeeze=False, width_ratios=[heads, 1.5])
        for (left, right), (task, name, coefficients) in zip(grid, found, strict=True):
            left.set_title(f"{name}, {task}", fontsize=9, fontweight="bold", loc="left")
            left.set_xlabel("head")
            left.set_ylabel("layer")
            _heat(figure, left, np.array(coefficients["heads"]))
            if "layers" in coefficients:
                right.set_title("layers", fontsize=9, loc="left")
                _heat(figure, right, np.array(coefficients["layers"])[:, None])
                right.set_xticks([])
            else:
                right.set_visible(False)
        save_figure(figure, path)


def _heat(figure: Any, axes: Any, values: NDArray[np.float64]) -> None:
    """Cells from white (the smallest value) to orange (the largest)."""
    shown = axes.imshow(values, cmap=colours(FOR), aspect="auto")
    axes.set_xticks(range(values.shape[1]), labels=range(1, values.shape[1] + 1), fontsize=7)
    axes.set_yticks(range(values.shape[0]), labels=range(1, values.shape[0] + 1), fontsize=7)
    axes.tick_params(length=0)
    figure.colorbar(shown, ax=axes, shrink=0.8).ax.tick_params(labelsize=7)


def colours(*sides: Colour) -> LinearSegmentedColormap:
    """A scale from white to one colour, or from the first through white to the second."""
    return LinearSegmentedColormap.from_list("explearn", colour_map(sides))


def write_gain_maps(folder: Path, maps: Sequence[GainMap]) -> None:
    """Draw heat maps of gains into `folder`: blue below 0, orange above, a dash for NaN."""
    for found in maps:
        _write_gains(folder / found.file, found)


def _write_gains(path: Path, found: GainMap) -> None:
    values = np.array(found.gains, dtype=np.float64)
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(1.1 * len(found.columns) + 2.2, 0.45 * len(found.rows) + 1.6), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots()
        largest = float(np.nanmax(np.abs(values))) if np.isfinite(values).any() else 1.0
        axes.imshow(values, cmap=colours(AGAINST, FOR), vmin=-(largest or 1.0), vmax=largest or 1.0, aspect="auto")
        axes.set_title(found.title, fontsize=9, loc="left")
        axes.set_xticks(range(len(found.columns)), labels=found.columns)
        axes.set_yticks(range(len(found.rows)), labels=found.rows)
        axes.tick_params(length=0)
        for (row, column), value in np.ndenumerate(values):
            text = "–" if np.isnan(value) else f"{value:+.0f} %"
            dark = bool(np.isfinite(value)) and abs(value) > 0.6 * largest
            axes.text(column, row, text, ha="center", va="center", fontsize=8, color="white" if dark else "black")
        save_figure(figure, path)
