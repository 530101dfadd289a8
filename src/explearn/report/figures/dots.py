"""The overview: a named row per method, a panel per question, and the time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from explearn.methods.results import Number, RunFacts, Tasks
from explearn.metrics.base import Metric
from explearn.metrics.registry import CATALOGUE
from explearn.report.columns import marked
from explearn.report.figures.style import FAINT, STYLES, draw_legend, draw_value, set_rows
from explearn.report.known_answers import KnownAnswer
from explearn.report.verdict import MARKS, MODEL, TIME, means
from explearn.show.blocks import Picture

PANELS = {MARKS: "Agrees:\nmarks", MODEL: "Agrees:\nmodel"}
"""Metric and title of the first panels; a panel without figures is left out. Known answers follow."""

CAPTION = "Known answers are explained below the next table."

# In inches. As narrow as can be read: a phone shows it at two thirds of this size.
_ROW = 0.2
_MARGIN = 1.5
_LABELS = 1.95
_PANEL = 0.82

_TIME = 38
"""Points from a panel to the right end of the column of times."""

TICKS = 2
"""Most steps between an axis's ticks."""


class Panel(NamedTuple):
    """A column of the picture: title, metric, the methods' figures and bounds, and what chance has, if known."""

    title: str
    metric: Metric
    figures: Mapping[str, Mapping[str, Number]]
    chance: Number

    def value(self, method: str) -> Number:
        """Return a method's figure; None if it has none."""
        return self.figures.get(method, {}).get(self.metric.name)


def dot_plot(run: RunFacts, tasks: Tasks, named: Collection[str], known: Sequence[KnownAnswer] = ()) -> Picture | None:
    """Return a picture of the methods' means over the tasks, and of known answers; None without figures.

    The methods are ordered by the first panel, best on top. Lines are intervals: of known answers, and of one task.

    Args:
        run: facts about the run.
        tasks: its results on each task.
        named: methods whose names are bold.
        known: tests with a known answer.
    """
    panels = []
    for name, title in PANELS.items():
        values = means(run, name, tasks)
        if not values:
            continue
        figures: Mapping[str, Mapping[str, Number]] = {method: {name: value} for method, value in values.items()}
        if len(tasks) == 1:
            figures = {method: tasks[0].methods[method] for method in values}
        panels.append(Panel(title, CATALOGUE[name], figures, values.get("random")))
    for answer in known:
        what = answer.metric.heading.removeprefix("Planted: ").lower()
        panels.append(Panel(f"Known:\n{what}", answer.metric, answer.figures, answer.chance))
    if not panels:
        return None
    methods = list(dict.fromkeys(method for panel in panels for method in panel.figures))
    # Methods without the first figure come last.
    methods.sort(key=lambda method: panels[0].value(method) or float("-inf"), reverse=True)
    return Picture(
        "machine/glance.svg",
        CAPTION if known else "",
        f"A row per method: {', '.join(panel.metric.heading for panel in panels)}, time",
        (_LABELS + _PANEL * len(panels), _MARGIN + _ROW * len(methods)),
        partial(_draw, run, panels, methods, named, means(run, TIME.name, tasks)),
        machine=True,
    )


def _draw(
    run: RunFacts,
    panels: Sequence[Panel],
    methods: Sequence[str],
    named: Collection[str],
    times: Mapping[str, float],
    figure: Figure,
) -> None:
    row_of_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, panel in zip(row_of_axes, panels, strict=True):
        axes.set_title(panel.title, fontsize=9, fontweight="bold", loc="left")
        axes.set_xlabel(panel.metric.heading.replace(" ", "\n"))
        axes.xaxis.set_major_locator(MaxNLocator(TICKS))
        set_rows(axes, [marked(run, method) for method in methods], "y")
        if panel.chance is not None:
            axes.axvline(panel.chance, color=FAINT, linewidth=1.2, linestyle="--", zorder=1)
        for row, method in enumerate(methods):
            value = panel.value(method)
            if value is None:
                continue
            name = panel.metric.name
            bounds = panel.figures[method].get(f"{name}_low"), panel.figures[method].get(f"{name}_high")
            words = f"{method}: {panel.metric.heading} {value:.3f}"
            draw_value(axes, row, value, bounds, STYLES[run.methods[method].family], words)
    figure.supxlabel("better →", fontsize=9)
    first: Axes = row_of_axes[0]
    last: Axes = row_of_axes[-1]
    for label, method in zip(first.get_yticklabels(), methods, strict=True):
        if method in named:
            label.set_fontweight("bold")
    beside: dict[str, Any] = {"textcoords": "offset points", "ha": "right"}
    if times:
        above = (_TIME, 6)
        last.annotate("time", (1, 1), above, "axes fraction", fontsize=9, fontweight="bold", **beside)
    at_row = last.get_yaxis_transform()
    for row, method in enumerate(methods):
        if method in times:
            shown = TIME.shown(times[method])
            last.annotate(shown, (1, row), (_TIME, 0), at_row, va="center", **beside)
    draw_legend(figure, run.methods, methods, any(panel.chance is not None for panel in panels))
