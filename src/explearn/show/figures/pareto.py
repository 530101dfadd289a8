"""Quality against time, one point per method, and the Pareto front: methods that none beats at their cost."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from adjustText import adjust_text
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from explearn.core.blocks import Picture
from explearn.judge.catalogue import CATALOGUE
from explearn.methods.results import RunFacts, TaskReport
from explearn.show.columns import marked
from explearn.show.figures.style import STYLES, draw_legend

PANELS = {
    "f1_topk": "Agreement with people: F1 top-K ↑",
    "aopc_comprehensiveness": "Agreement with the model: AOPC comprehensiveness ↑",
    "aopc_sufficiency": "Agreement with the model: AOPC sufficiency ↓",
}
"""Metric and title of each panel."""


@dataclass(frozen=True, slots=True)
class CostPoint:
    """A method's mean over the tasks; its cost is its time relative to classifying alone, at least 1."""

    method: str
    cost: float
    value: float


def cost_points(run: RunFacts, tasks: Sequence[TaskReport], metric: str) -> list[CostPoint]:
    """Return a point for each method that has a cost and a value on every task where any method has this value."""
    judged = [task for task in tasks if any(figures.get(metric) is not None for figures in task.methods.values())]
    points = []
    for method in run.methods if judged else ():
        rows = [task.methods.get(method, {}) for task in judged]
        speeds = [speed for row in rows if (speed := row.get("relative_throughput"))]
        values = [value for row in rows if (value := row.get(metric)) is not None]
        if len(speeds) == len(values) == len(rows):
            points.append(CostPoint(method, max(1.0, fmean(1 / speed for speed in speeds)), fmean(values)))
    return points


def pareto_front(points: Sequence[CostPoint], larger_is_better: bool) -> list[CostPoint]:
    """Return the Pareto front, cheapest first: points that no other point dominates.

    One point dominates another where it is at least as cheap and at least as good, and cheaper or better.
    """
    front: list[CostPoint] = []
    sign = 1 if larger_is_better else -1
    for point in sorted(points, key=lambda p: (p.cost, -sign * p.value)):
        if not front or sign * point.value > sign * front[-1].value:
            front.append(point)
    return front


def pareto_picture(run: RunFacts, tasks: Sequence[TaskReport]) -> Picture:
    """Return a picture of PANELS one below the other, cost on a logarithmic axis.

    Methods whose figures do not compare (`RunFacts.comparable`) are shown, but are never on the front.
    """
    return Picture(
        "machine/pareto.svg",
        "What agreement costs; no method that is as fast is better than a method on the line",
        "Agreement with people and with the model against time, one point per method",
        (9, 13),
        partial(_draw, run, tasks, list(PANELS), None),
        machine=True,
    )


def glance_picture(run: RunFacts, tasks: Sequence[TaskReport], named: Collection[str]) -> Picture:
    """Return a small picture of the first two of PANELS: the ones in `named`, the front and random have names."""
    return Picture(
        "machine/glance.svg",
        "",
        "Agreement with people and with the model against time, one point per method",
        (5, 4.4),
        partial(_draw, run, tasks, list(PANELS)[:2], {*named, "random"}),
    )


def _draw(
    run: RunFacts, tasks: Sequence[TaskReport], metrics: Sequence[str], named: Collection[str] | None, figure: Figure
) -> None:
    """named: methods to name beside the front's; None: all."""
    points = {metric: cost_points(run, tasks, metric) for metric in metrics}
    # A panel without a point has nothing to say beside those that have some.
    points = {metric: of_metric for metric, of_metric in points.items() if of_metric} or points
    figure.set_figheight(figure.get_figheight() * len(points) / len(metrics))
    rows = figure.subplots(len(points), 1, squeeze=False)[:, 0]
    for axes, (metric, of_metric) in zip(rows, points.items(), strict=True):
        axes.set_title(PANELS[metric], fontsize=9, fontweight="bold", loc="left")
        if of_metric:
            _panel(axes, run, metric, of_metric, named)
        else:
            axes.set_axis_off()
            axes.text(0.5, 0.5, "nothing measured", transform=axes.transAxes, ha="center", va="center")
    costs = "time to classify and explain, relative to classifying alone (logarithmic)"
    if named is not None:
        costs = "time relative to classifying alone; on the line: none is better in less time"
    figure.supxlabel(costs, fontsize=9)
    drawn = {point.method for of_metric in points.values() for point in of_metric}
    draw_legend(figure, run.methods, drawn, 99 if named is None else 4)
    # Labels are placed once the axes have their final size.
    figure.canvas.draw()
    for axes, of_metric in zip(rows, points.values(), strict=True):
        if axes.texts and of_metric:
            adjust_text(
                list(axes.texts),
                x=[point.cost for point in of_metric],
                y=[point.value for point in of_metric],
                ax=axes,
                iter_lim=200,
                arrowprops={"arrowstyle": "-", "color": "#999999", "linewidth": 0.5},
            )


def _panel(axes: Axes, run: RunFacts, metric: str, points: Sequence[CostPoint], named: Collection[str] | None) -> None:
    larger = CATALOGUE[metric].larger_is_better
    axes.set_xscale("log")
    axes.grid(color="#E5E5E5", linewidth=0.6)
    axes.set_axisbelow(True)
    front = pareto_front([point for point in points if run.comparable(point.method, metric)], larger)
    if front:
        last = max(point.cost for point in points) * 1.3
        axes.step(
            [*(p.cost for p in front), last], [*(p.value for p in front), front[-1].value],
            where="post", color="#888888", linewidth=1.0, zorder=1,
        )  # fmt: skip
    ahead = {point.method for point in front}
    for point in points:
        info = run.methods[point.method]
        colour, marker = STYLES[info.family]
        axes.plot([point.cost], [point.value], color=colour, marker=marker, markersize=6, linestyle="none", zorder=3)
        if named is None or point.method in {*named, *ahead}:
            weight = "bold" if (info.learned if named is None else point.method in named) else "normal"
            size = 7 if named is None else 8
            axes.text(point.cost, point.value, marked(run, point.method), fontsize=size, fontweight=weight, zorder=4)
    axes.margins(x=0.12, y=0.12)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda cost, _: f"{cost:g}×"))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))
    if not larger:
        axes.invert_yaxis()
