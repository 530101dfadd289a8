"""A metric of every method on every task, drawn as points with intervals, one panel per task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from explearn.methods.info import MethodInfo
from explearn.methods.results import Number, RunFacts, TaskReport
from explearn.metrics.registry import CATALOGUE
from explearn.report.figures.style import STYLES, draw_legend, say
from explearn.report.verdict import if_several
from explearn.show.blocks import Picture

_CHANCE = {"auroc": 0.5}
"""Expected value for random scores, if known."""

_COLUMNS = 4

# In inches.
_PANEL_WIDTH = 1.95
_PANELS_WIDTH = 5.0
_LABEL_WIDTH = 1.7
_ROW_HEIGHT = 0.27


def interval_picture(run: RunFacts, tasks: Sequence[TaskReport], metric: str) -> Picture:
    """Return a picture of a metric of all methods on all tasks.

    Methods are ordered by their mean over the tasks, best on top. Learned methods have a bold name and a shaded row. A
    method without a value on a task has no point there.
    """
    columns = max(1, min(_COLUMNS, len(tasks)))
    rows = max(1, ceil(len(tasks) / columns))
    # A single panel must leave room for the legend. Heading, axis and legend take 1.1 inches in addition to the rows.
    width = _LABEL_WIDTH + max(_PANELS_WIDTH, _PANEL_WIDTH * columns)
    height = rows * (0.65 + _ROW_HEIGHT * max(3, len(run.methods))) + 0.55
    heading = CATALOGUE[metric].heading
    return Picture(
        f"figures/{metric}.svg",
        f"{heading} of each method{if_several(tasks, ' on each task')}, with its interval",
        f"Points with intervals: {heading} by method{if_several(tasks, ', one panel per task')}",
        (width, height),
        partial(_draw, run, tasks, metric, rows, columns),
    )


def _draw(run: RunFacts, tasks: Sequence[TaskReport], metric: str, rows: int, columns: int, figure: Figure) -> None:
    figures, methods, values = _figures_of(tasks, metric)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    chance = _CHANCE.get(metric)
    for axes in grid.flat[len(tasks) :]:
        axes.set_visible(False)
    for index, (axes, (name, of_task)) in enumerate(zip(grid.flat, figures.items(), strict=False)):
        axes.tick_params(axis="y", length=0)
        axes.tick_params(labelbottom=index + columns >= len(tasks))
        axes.set_title(name, fontsize=9, fontweight="bold", loc="left")
        axes.grid(axis="x", color="#E5E5E5", linewidth=0.6)
        axes.set_axisbelow(True)
        if chance is not None:
            axes.axvline(chance, color="#555555", linewidth=0.9, linestyle="--", zorder=1)
        for row, method in enumerate(methods):
            _draw_interval(axes, row, run.methods[method], of_task.get(method, (None, None, None)), f"{method}, {name}")
        if all(value is None for value, *_ in of_task.values()):
            axes.text(0.5, 0.5, "no marked texts", transform=axes.transAxes, ha="center", va="center", color="#555555")
    for axes in grid[:, 0]:
        axes.set_yticks(range(len(methods)), labels=methods)
        for label, method in zip(axes.get_yticklabels(), methods, strict=True):
            if run.methods[method].learned:
                label.set_fontweight("bold")
    # Without a chance level, lengths are compared from zero.
    lowest = 0.0
    dashed = ""
    if chance is not None:
        lowest = max(0.0, min([*values, chance]) - 0.05)
        dashed = f", dashed: {chance:g}, by chance"
    grid[0, 0].set_ylim(len(methods) - 0.4, -0.6)
    grid[0, 0].set_xlim(lowest, min(1.0, max(values, default=0.95) + 0.05))
    grid[0, 0].xaxis.set_major_locator(MultipleLocator(0.2))
    label = f"{CATALOGUE[metric].heading} (line: {100 * run.evaluate.confidence:g} % interval{dashed})"
    figure.supxlabel(label, fontsize=9)
    draw_legend(figure, run.methods, methods, most_columns=2 * columns + 2)


def _figures_of(
    tasks: Sequence[TaskReport], metric: str
) -> tuple[dict[str, dict[str, Sequence[Number]]], list[str], list[float]]:
    """Return task -> method -> figure and ends of its interval; the methods, best mean first; and all numbers."""
    figures: dict[str, dict[str, Sequence[Number]]] = {}
    by_method: dict[str, list[float]] = {}
    values: list[float] = []
    for task in tasks:
        figures[task.task] = {}
        for method, of_method in task.methods.items():
            shown = [of_method.get(name) for name in (metric, f"{metric}_low", f"{metric}_high")]
            figures[task.task][method] = shown
            by_method.setdefault(method, [])
            if shown[0] is not None:
                by_method[method].append(shown[0])
            values += [value for value in shown if value is not None]
    methods = sorted(by_method, key=lambda method: (-fmean(by_method[method] or [-1.0]), method))
    return figures, methods, values


def _draw_interval(axes: Axes, row: int, info: MethodInfo, figures: Sequence[Number], name: str) -> None:
    """Draw a method's figure and interval in a row."""
    colour, marker = STYLES[info.family]
    value, low, high = figures
    if info.learned:
        axes.axhspan(row - 0.5, row + 0.5, color=colour, alpha=0.09, linewidth=0, zorder=0)
    if low is not None and high is not None:
        axes.plot([low, high], [row, row], color=colour, marker="|", markersize=7, linewidth=1.8, zorder=2)
    if value is not None:
        size = 5.0 + info.learned
        (point,) = axes.plot([value], [row], color=colour, marker=marker, markersize=size, zorder=3, clip_on=False)
        words = f"{name}: {value:.3f}"
        if low is not None and high is not None:
            words += f" ({low:.3f} to {high:.3f})"
        say(point, words)
