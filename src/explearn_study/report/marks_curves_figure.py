"""How good ExpNet is with more and more marked texts, beside the baselines: one row of panels a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from explearn.methods.registry import get_info
from explearn.show.figures.style import SETTINGS, family_styles, save_figure
from explearn.show.task_report import TaskReport
from explearn_study.report.curves import FIGURE, baselines_beside, with_curve

PANELS = (("f1_topk", "F1 top-K"), ("auroc", "AUROC"))

COLOUR = family_styles(["learned"])["learned"][0]

# In inches.
_WIDTH = 8.6
_PANEL_HEIGHT = 2.35

LABEL_GAP = 0.085
"""Least distance between the labels of two lines, as a share of the panel's height."""

LINEAR_TO = 5
"""Marked texts up to which the axis is linear, so that 0 has a place; from there on it is logarithmic."""


def write_marks_curves(folder: Path, tasks: Sequence[TaskReport], confidence: float) -> None:
    """Draw FIGURE into `folder`; nothing where no task has a curve. The same numbers give the same bytes."""
    shown = with_curve(tasks)
    if not shown:
        return
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(_WIDTH, _PANEL_HEIGHT * len(shown) + 0.5), layout="constrained")
        FigureCanvasSVG(figure)
        grid = figure.subplots(len(shown), len(PANELS), squeeze=False)
        for row, task in zip(grid, shown, strict=True):
            for axes, (metric, title) in zip(row, PANELS, strict=True):
                _panel(axes, task, metric)
                axes.set_title(f"{task.task}: {title}", fontsize=9, fontweight="bold", loc="left")
        figure.supxlabel(
            f"marked texts of the task that ExpNet learned from (band: {100 * confidence:g} % interval over draws and "
            "texts)",
            fontsize=9,
        )
        save_figure(figure, folder / FIGURE)


def _panel(axes: Axes, task: TaskReport, metric: str) -> None:
    points = [point for point in task.curve["points"] if point[metric] is not None]
    marks = [point["marks"] for point in points]
    axes.set_xscale("symlog", linthresh=LINEAR_TO, linscale=0.6)
    axes.set_xlim(0, max(marks, default=1) * 1.08)
    axes.set_xticks(marks, labels=[str(count) for count in marks], fontsize=8)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.tick_params(axis="y", labelsize=8)
    axes.grid(axis="y", color="#EEEEEE", linewidth=0.6)
    axes.set_axisbelow(True)
    values = [point[metric] for point in points]
    known = [point for point in points if point[f"{metric}_low"] is not None]
    axes.fill_between(
        [point["marks"] for point in known],
        [point[f"{metric}_low"] for point in known],
        [point[f"{metric}_high"] for point in known],
        color=COLOUR, alpha=0.15, linewidth=0,
    )  # fmt: skip
    axes.plot(marks, values, color=COLOUR, marker="o", markersize=3.5, linewidth=1.6, zorder=3, clip_on=False)
    lines = baselines_beside(task, metric)
    styles = family_styles([get_info(name).family for name in lines])
    for name, value in lines.items():
        axes.axhline(value, color=styles[get_info(name).family][0], linewidth=0.9, linestyle=(0, (4, 2)), zorder=2)
    _label_lines(axes, lines, styles)


def _label_lines(axes: Axes, lines: Mapping[str, float], styles: Mapping[str, Any]) -> None:
    """Write the lines' names beside the panel, in their order, far enough apart to be read."""
    low, high = axes.get_ylim()
    names = sorted(lines, key=lambda name: lines[name])
    places = apart([(lines[name] - low) / (high - low) for name in names], LABEL_GAP)
    # None below the panel, where the axis has its numbers.
    raised = max(0.0, -min(places, default=0.0))
    places = [place + raised for place in places]
    for name, place in zip(names, places, strict=True):
        axes.annotate(
            f"{name} {lines[name]:.2f}",
            xy=(1.0, (lines[name] - low) / (high - low)),
            xytext=(1.035, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            fontsize=7.5,
            va="center",
            color=styles[get_info(name).family][0],
            arrowprops={"arrowstyle": "-", "color": "#BBBBBB", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 0},
            annotation_clip=False,
        )
    axes.set_ylim(low, high)


def apart(places: Sequence[float], gap: float) -> list[float]:
    """Rising places moved as little as their order allows until each is `gap` above the one before.

    Groups that touch are centred on the mean of where they wanted to be.
    """
    groups: list[list[float]] = []
    for place in places:
        groups.append([place])
        while len(groups) > 1 and _bounds(groups[-2], gap)[1] + gap > _bounds(groups[-1], gap)[0]:
            last = groups.pop()
            groups[-1] += last
    return [_bounds(group, gap)[0] + gap * number for group in groups for number in range(len(group))]


def _bounds(group: Sequence[float], gap: float) -> tuple[float, float]:
    """Lowest and highest place of a group whose members are `gap` apart."""
    half = gap * (len(group) - 1) / 2
    middle = float(np.mean(group))
    return middle - half, middle + half
