"""The overview: a named row per method, a panel per question, and the time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from explearn.methods.results import RunFacts, Tasks
from explearn.metrics.registry import CATALOGUE
from explearn.report.columns import marked
from explearn.report.figures.style import FAINT, STYLES, draw_legend, draw_value, set_rows
from explearn.report.verdict import MARKS, MODEL, TIME, means
from explearn.show.blocks import Picture

PANELS = {MARKS: "Agreement: marks", MODEL: "Agreement: model"}
"""Metric and title of each panel; a panel without figures is left out."""

# In inches. As narrow as can be read: a phone shows it at three quarters of this size.
_ROW = 0.2
_MARGIN = 1.25
_LABELS = 1.9
_PANEL = 1.5

_TIME = 38
"""Points from a panel to the right end of the column of times."""


def dot_plot(run: RunFacts, tasks: Tasks, named: Collection[str]) -> Picture | None:
    """Return a picture of the methods' means over the tasks; None without figures.

    The methods are ordered by the first panel, best on top. With one task, lines are intervals.

    Args:
        run: facts about the run.
        tasks: its results on each task.
        named: methods whose names are bold.
    """
    panels = {}
    for metric in PANELS:
        values = means(run, metric, tasks)
        if values:
            panels[metric] = values
    if not panels:
        return None
    methods = sorted({method for values in panels.values() for method in values})
    first, *_ = panels
    sign = -1 if CATALOGUE[first].larger_is_better else 1
    methods.sort(key=lambda method: sign * panels[first].get(method, -sign * float("inf")))
    return Picture(
        "machine/glance.svg",
        "",
        f"A row per method: {', '.join(PANELS[metric].lower() for metric in panels)}, time",
        (_LABELS + _PANEL * len(panels), _MARGIN + _ROW * len(methods)),
        partial(_draw, run, tasks, panels, methods, named),
        machine=True,
    )


def _draw(
    run: RunFacts,
    tasks: Tasks,
    panels: Mapping[str, Mapping[str, float]],
    methods: Sequence[str],
    named: Collection[str],
    figure: Figure,
) -> None:
    row_of_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (metric, values) in zip(row_of_axes, panels.items(), strict=True):
        axes.set_title(PANELS[metric], fontsize=9, fontweight="bold", loc="left")
        better = "better →" if CATALOGUE[metric].larger_is_better else "← better"
        axes.set_xlabel(f"{CATALOGUE[metric].heading} ({better})")
        set_rows(axes, [marked(run, method) for method in methods], "y")
        if "random" in values:
            axes.axvline(values["random"], color=FAINT, linewidth=1.2, linestyle="--", zorder=1)
        for row, method in enumerate(methods):
            if method not in values:
                continue
            low = high = None
            if len(tasks) == 1:
                figures = tasks[0].methods[method]
                low, high = figures.get(f"{metric}_low"), figures.get(f"{metric}_high")
            words = f"{method}: {CATALOGUE[metric].heading} {values[method]:.3f}"
            draw_value(axes, row, values[method], (low, high), STYLES[run.methods[method].family], words)
    first: Axes = row_of_axes[0]
    last: Axes = row_of_axes[-1]
    for label, method in zip(first.get_yticklabels(), methods, strict=True):
        if method in named:
            label.set_fontweight("bold")
    times = means(run, TIME.name, tasks)
    beside: dict[str, Any] = {"textcoords": "offset points", "ha": "right"}
    if times:
        above = (_TIME, 6)
        last.annotate("time", (1, 1), above, "axes fraction", fontsize=9, fontweight="bold", **beside)
    at_row = last.get_yaxis_transform()
    for row, method in enumerate(methods):
        if method in times:
            shown = TIME.shown(times[method])
            last.annotate(shown, (1, row), (_TIME, 0), at_row, va="center", **beside)
    draw_legend(figure, run.methods, methods)
