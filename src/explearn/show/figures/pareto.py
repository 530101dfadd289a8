"""Quality against time, one point per method, and the Pareto front: methods that none beats at their cost."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import matplotlib
import numpy as np
from adjustText import adjust_text
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from explearn.methods.registry import get_info, leaderboard_order
from explearn.show.columns import comparable, marked
from explearn.show.figures.style import SETTINGS, Styles, draw_legend, family_styles, save_figure
from explearn.show.task_report import TaskReport


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel of the figure: its metric, its title, and whether a larger value is better."""

    metric: str
    title: str
    larger_is_better: bool


PANELS = (
    Panel("f1_topk", "Agreement with people: F1 top-K ↑", True),
    Panel("aopc_comprehensiveness", "Agreement with the model: AOPC comprehensiveness ↑", True),
    Panel("aopc_sufficiency", "Agreement with the model: AOPC sufficiency ↓", False),
)


@dataclass(frozen=True, slots=True)
class Point:
    """A method's mean over the tasks; its cost is its time relative to classifying alone, at least 1."""

    method: str
    cost: float
    value: float


def points(panel: Panel, tasks: Sequence[TaskReport]) -> list[Point]:
    """A point for each method that has a cost and a value on every task where any method has this value."""
    judged = [t for t in tasks if any(m.get(panel.metric) is not None for m in t.methods.values())]
    found = []
    for method in leaderboard_order(list(dict.fromkeys(m for task in judged for m in task.methods))):
        rows = [task.methods.get(method, {}) for task in judged]
        speeds = [speed for row in rows if (speed := row.get("relative_throughput"))]
        values = [value for row in rows if (value := row.get(panel.metric)) is not None]
        if len(speeds) == len(values) == len(rows):
            found.append(Point(method, max(1.0, fmean(1 / speed for speed in speeds)), fmean(values)))
    return found


def pareto_front(found: Sequence[Point], larger_is_better: bool) -> list[Point]:
    """The Pareto front, cheapest first: points that no other point dominates.

    One point dominates another where it is at least as cheap and at least as good, and cheaper or better.
    """
    front: list[Point] = []
    sign = 1 if larger_is_better else -1
    for point in sorted(found, key=lambda p: (p.cost, -sign * p.value)):
        if not front or sign * point.value > sign * front[-1].value:
            front.append(point)
    return front


def write_pareto(path: Path, tasks: Sequence[TaskReport]) -> None:
    """Draw PANELS one below the other, cost on a logarithmic axis, in the format of the path's suffix (.svg, .png).

    Methods whose figures do not compare (`explearn.show.columns.comparable`) are shown, but are never on
    the front. The same numbers give the same bytes.
    """
    _write(path, PANELS, tasks, (9, 13), None)


def write_glance(path: Path, tasks: Sequence[TaskReport], named: Collection[str]) -> None:
    """Draw the first two of PANELS small, for a first look: all methods are points, and the ones of `named`, the front
    and random scores have their names."""
    _write(path, PANELS[:2], tasks, (5, 4.4), {*named, "random"})


def _write(
    path: Path,
    panels: Sequence[Panel],
    tasks: Sequence[TaskReport],
    size: tuple[float, float],
    named: Collection[str] | None,
) -> None:
    """Draw panels one below the other. size: in inches. named: methods to name beside the front's; None: all."""
    drawn = {panel: points(panel, tasks) for panel in panels}
    # A panel without a point has nothing to say beside those that have some.
    drawn = {panel: found for panel, found in drawn.items() if found} or drawn
    methods = {point.method for found in drawn.values() for point in found}
    families = {method: get_info(method).family for method in methods}
    styles = family_styles(sorted(families.values()))
    small = named is not None
    with matplotlib.rc_context(SETTINGS):
        width, height = size
        figure = Figure(figsize=(width, height * len(drawn) / len(panels)), layout="constrained")
        FigureCanvasSVG(figure)
        rows = figure.subplots(len(drawn), 1, squeeze=False)[:, 0]
        for axes, (panel, found) in zip(rows, drawn.items(), strict=True):
            _draw(axes, panel, found, families, styles, named)
        costs = "time to classify and explain, relative to classifying alone (logarithmic)"
        if small:
            costs = "time relative to classifying alone; on the line: none is better in less time"
        figure.supxlabel(costs, fontsize=9)
        draw_legend(figure, list(families.values()), styles, 4 if small else None)
        # Labels are placed once the axes have their final size.
        figure.canvas.draw()
        for axes in figure.axes:
            _place_labels(axes)
        save_figure(figure, path)


def _draw(
    axes: Axes,
    panel: Panel,
    found: Sequence[Point],
    families: Mapping[str, str],
    styles: Styles,
    named: Collection[str] | None,
) -> None:
    axes.set_title(panel.title, fontsize=9, fontweight="bold", loc="left")
    if not found:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "nothing measured", transform=axes.transAxes, ha="center", va="center", color="#555555")
        return
    axes.set_xscale("log")
    axes.grid(color="#E5E5E5", linewidth=0.6)
    axes.set_axisbelow(True)
    front = pareto_front([p for p in found if comparable(p.method, panel.metric)], panel.larger_is_better)
    last = max(point.cost for point in found) * 1.3
    if front:
        axes.step(
            [*(p.cost for p in front), last], [*(p.value for p in front), front[-1].value],
            where="post", color="#888888", linewidth=1.0, zorder=1,
        )  # fmt: skip
    for point in found:
        colour, marker = styles[families[point.method]]
        axes.plot([point.cost], [point.value], color=colour, marker=marker, markersize=6, linestyle="none", zorder=3)
    labelled = None if named is None else {*named, *(point.method for point in front)}
    for point in found:
        if labelled is None or point.method in labelled:
            bold = families[point.method] == "learned" if named is None else point.method in named
            weight, size = "bold" if bold else "normal", 7 if named is None else 8
            axes.text(point.cost, point.value, marked(point.method), fontsize=size, fontweight=weight, zorder=4)
    axes.margins(x=0.12, y=0.12)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda cost, _: f"{cost:g}×"))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))
    if not panel.larger_is_better:
        axes.invert_yaxis()


def _place_labels(axes: Axes) -> None:
    if not axes.texts or not axes.lines or not axes.axison:
        return
    marks = [line for line in axes.lines if len(np.atleast_1d(line.get_xdata())) == 1]
    adjust_text(
        list(axes.texts),
        x=[float(np.atleast_1d(line.get_xdata())[0]) for line in marks],
        y=[float(np.atleast_1d(line.get_ydata())[0]) for line in marks],
        ax=axes,
        iter_lim=200,
        arrowprops={"arrowstyle": "-", "color": "#999999", "linewidth": 0.5},
    )
