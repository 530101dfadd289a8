"""Quality against time, one point per method, with the Pareto front."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from adjustText import adjust_text
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from explearn.methods.results import RunFacts, TaskReport
from explearn.metrics.registry import CATALOGUE
from explearn.report.columns import marked
from explearn.report.figures.style import STYLES, draw_legend, say
from explearn.report.verdict import LEADING, means
from explearn.show.blocks import Picture

PANELS = {
    "f1_topk": "Agreement with people: F1 top-K ↑",
    "aopc_comprehensiveness": "Agreement with the model: AOPC comprehensiveness ↑",
}
"""Metric and title of each panel."""

CROWDED = 10
"""Most points in a panel for which all are labelled."""


@dataclass(frozen=True, slots=True)
class CostPoint:
    """A method's mean over the tasks; its cost is its time relative to classifying alone, at least 1."""

    method: str
    cost: float
    value: float


def cost_points(run: RunFacts, tasks: Sequence[TaskReport], metric: str) -> list[CostPoint]:
    """Return a point for each method with a cost and a value on every task on which any method has this value."""
    judged = [task for task in tasks if means(run, metric, [task])]
    times = means(run, "time", judged)
    points = []
    for method, value in means(run, metric, judged).items():
        if method in times:
            points.append(CostPoint(method, max(1.0, times[method]), value))
    return points


def pareto_front(points: Sequence[CostPoint], larger_is_better: bool) -> list[CostPoint]:
    """Return the Pareto front, cheapest first: points that no other point dominates.

    One point dominates another if it is at least as cheap and as good, and cheaper or better.
    """
    front: list[CostPoint] = []
    sign = 1 if larger_is_better else -1
    for point in sorted(points, key=lambda p: (p.cost, -sign * p.value)):
        if not front or sign * point.value > sign * front[-1].value:
            front.append(point)
    return front


def pareto_picture(run: RunFacts, tasks: Sequence[TaskReport], named: Collection[str]) -> Picture:
    """Return a picture of PANELS below each other, with cost on a logarithmic axis.

    Methods whose figures cannot be compared (`RunFacts.comparable`) are shown, but are never on the front.

    Args:
        run: facts about the run.
        tasks: its results on each task.
        named: methods to label in addition to LEADING if there are more than CROWDED.
    """
    return Picture(
        "machine/glance.svg",
        "",
        "Agreement with people and with the model against time, one point per method",
        (4.2, 4.4),
        partial(_draw, run, tasks, named),
        machine=True,
    )


def _draw(run: RunFacts, tasks: Sequence[TaskReport], named: Collection[str], figure: Figure) -> None:
    points = {metric: cost_points(run, tasks, metric) for metric in PANELS}
    # A panel without points is left out if another has some.
    points = {metric: of_metric for metric, of_metric in points.items() if of_metric} or points
    figure.set_figheight(figure.get_figheight() * len(points) / len(PANELS))
    rows = figure.subplots(len(points), 1, squeeze=False)[:, 0]
    for axes, (metric, of_metric) in zip(rows, points.items(), strict=True):
        axes.set_title(PANELS[metric], fontsize=9, fontweight="bold", loc="left")
        if not of_metric:
            axes.set_axis_off()
            axes.text(0.5, 0.5, "nothing measured", transform=axes.transAxes, ha="center", va="center")
            continue
        larger = CATALOGUE[metric].larger_is_better
        axes.set_xscale("log")
        last = max(point.cost for point in of_metric) * 1.3
        axes.set_xlim(0.6, max(2.2, last * 1.1))
        axes.grid(color="#E5E5E5", linewidth=0.6)
        axes.set_axisbelow(True)
        front = pareto_front([point for point in of_metric if run.comparable(point.method, metric)], larger)
        if front:
            costs = [point.cost for point in front]
            values = [point.value for point in front]
            axes.step([*costs, last], [*values, values[-1]], where="post", color="#888888", linewidth=1.0, zorder=1)
        for point in of_metric:
            colour, marker = STYLES[run.methods[point.method].family]
            (drawn,) = axes.plot(
                [point.cost], [point.value], color=colour, marker=marker, markersize=6, linestyle="none", zorder=3
            )
            say(drawn, f"{point.method}: {point.value:.3f} at {point.cost:.1f}×")
            if len(of_metric) <= CROWDED or point.method in {*LEADING, *named}:
                label = axes.text(point.cost, point.value, marked(run, point.method), fontsize=9, zorder=4)
                if point.method in named:
                    label.set_fontweight("bold")
        axes.margins(y=0.12)
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(FuncFormatter(lambda cost, _: f"{cost:g}×"))
    figure.supxlabel(
        "time relative to classifying alone (logarithmic)\ngrey line: the best figure in that time or less", fontsize=9
    )
    methods: set[str] = set()
    for of_metric in points.values():
        methods |= {point.method for point in of_metric}
    draw_legend(figure, run.methods, methods, 4)
    # Labels are placed once the axes have their final size, which they keep.
    figure.canvas.draw()
    figure.set_layout_engine("none")
    arrow = {"arrowstyle": "-", "color": "#999999", "linewidth": 0.5}
    for axes, of_metric in zip(rows, points.values(), strict=True):
        if of_metric:
            x = [point.cost for point in of_metric]
            y = [point.value for point in of_metric]
            adjust_text(list(axes.texts), x=x, y=y, ax=axes, iter_lim=200, arrowprops=arrow)
