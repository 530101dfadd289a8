"""A metric of every method on every task, drawn as points with intervals, one panel per task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from explearn.methods.registry import get_info
from explearn.show.figures.style import SETTINGS, Styles, draw_legend, family_styles, save_figure
from explearn.show.task_report import Number, TaskReport


@dataclass(frozen=True, slots=True)
class PlotSpec:
    """A figure of one metric.

    Attributes:
        name: of its files. metric: what it shows.
        low, high: metrics that hold the bounds of the interval; None where there is none.
        label: of the axis. chance: value of random scores; None where that is not known.
    """

    name: str
    metric: str
    low: str | None
    high: str | None
    label: str
    chance: float | None


F1_PLOT = PlotSpec("f1", "f1", "f1_low", "f1_high", "F1 (line: {confidence:g} % interval)", None)
AUROC_PLOT = PlotSpec(
    "auroc", "auroc", "auroc_low", "auroc_high", "AUROC (line: {confidence:g} % interval, dashed: 0.5, by chance)", 0.5
)

_COLUMNS = 4

# In inches.
_PANEL_WIDTH = 1.95
_PANELS_WIDTH = 5.0
_LABEL_WIDTH = 1.7
_ROW_HEIGHT = 0.27


def write_plot(path: Path, spec: PlotSpec, tasks: Sequence[TaskReport], confidence: float) -> None:
    """Draw `spec` for all tasks and methods, in the format of the path's suffix (.svg, .png).

    Methods are ordered by their mean over the tasks, best on top. Learned ones have a bold name and a shaded row. A
    method has no point on a task where it has no value.
    """
    methods = _by_mean(spec, tasks)
    families = {method: get_info(method).family for method in methods}
    styles = family_styles(list(families.values()))
    columns = max(1, min(_COLUMNS, len(tasks)))
    rows = max(1, ceil(len(tasks) / columns))
    # One panel alone must still leave room for the legend.
    width = _LABEL_WIDTH + max(_PANELS_WIDTH, _PANEL_WIDTH * columns)
    # Heading, axis and legend take 1.1 inches besides the rows of methods.
    height = rows * (0.65 + _ROW_HEIGHT * max(3, len(methods))) + 0.55
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(figure)
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for index, axes in enumerate(grid.flat):
            if index < len(tasks):
                _panel(axes, spec, tasks[index], methods, families, styles)
            else:
                axes.set_visible(False)
            if index + columns >= len(tasks):
                axes.tick_params(labelbottom=True)
        for axes in grid[:, 0]:
            axes.set_yticks(range(len(methods)), labels=methods)
            for label, method in zip(axes.get_yticklabels(), methods, strict=True):
                label.set_fontweight("bold" if families[method] == "learned" else "normal")
        grid[0, 0].set_ylim(len(methods) - 0.4, -0.6)
        grid[0, 0].set_xlim(*_limits(spec, tasks))
        grid[0, 0].xaxis.set_major_locator(MultipleLocator(0.2))
        figure.supxlabel(spec.label.format(confidence=100 * confidence), fontsize=9)
        draw_legend(figure, list(families.values()), styles, most_columns=2 * columns + 2)
        save_figure(figure, path)


def _panel(
    axes: Any,
    spec: PlotSpec,
    task: TaskReport,
    methods: Sequence[str],
    families: Mapping[str, str],
    styles: Styles,
) -> None:
    axes.set_title(task.task, fontsize=9, fontweight="bold", loc="left")
    axes.grid(axis="x", color="#E5E5E5", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    if spec.chance is not None:
        axes.axvline(spec.chance, color="#555555", linewidth=0.9, linestyle="--", zorder=1)
    for row, method in enumerate(methods):
        learned = families[method] == "learned"
        if learned:
            axes.axhspan(row - 0.5, row + 0.5, color="#D55E00", alpha=0.09, linewidth=0, zorder=0)
        value = task.methods.get(method, {}).get(spec.metric)
        if value is None:
            continue
        colour, marker = styles[families[method]]
        low, high = (task.methods[method].get(name) if name else None for name in (spec.low, spec.high))
        if low is not None and high is not None:
            axes.plot([low, high], [row, row], color=colour, marker="|", markersize=7, linewidth=1.8, zorder=2)
        size = 6.0 if learned else 5.0
        axes.plot([value], [row], color=colour, marker=marker, markersize=size, zorder=3, clip_on=False)
    if not any(_value(spec, task, method) is not None for method in methods):
        axes.text(0.5, 0.5, "no marked texts", transform=axes.transAxes, ha="center", va="center", color="#555555")


def _value(spec: PlotSpec, task: TaskReport, method: str) -> Number:
    return task.methods.get(method, {}).get(spec.metric)


def _by_mean(spec: PlotSpec, tasks: Sequence[TaskReport]) -> list[str]:
    names = dict.fromkeys(method for task in tasks for method in task.methods)

    def mean(method: str) -> float:
        values = [value for task in tasks if (value := _value(spec, task, method)) is not None]
        return fmean(values) if values else float("-inf")

    return sorted(names, key=lambda method: (-mean(method), method))


def _limits(spec: PlotSpec, tasks: Sequence[TaskReport]) -> tuple[float, float]:
    names = [name for name in (spec.metric, spec.low, spec.high) if name]
    values = [v for task in tasks for m in task.methods.values() for name in names if (v := m.get(name)) is not None]
    if spec.chance is None:
        # Lengths are compared from zero.
        return 0.0, min(1.0, max(values, default=0.95) + 0.05)
    return max(0.0, min([*values, spec.chance]) - 0.05), min(1.0, max([*values, spec.chance]) + 0.05)
