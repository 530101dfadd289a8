"""The overview: a named row per method, a panel per question, and the passes through the classifier."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from explearn.evaluation.result import Evaluation
from explearn.metrics.mosaics import MOSAICS
from explearn.report.figures.style import FAINT, STYLES, draw_legend, draw_value, set_rows
from explearn.report.run import MARKS, MODEL, RunFacts
from explearn.show.blocks import Picture

PANELS = {
    MARKS: "Finds\nwhat is\nmarked",
    MODEL: "Finds what\nthe model\nuses",
    MOSAICS.name: "Finds\nits class\n(mosaics)",
    "marks_human": "Finds what\npeople\nmarked",
}
"""Metric and title of the first panels; a panel without figures is left out. Planted words follow."""

# In inches. As narrow as can be read: a phone shows it at four fifths of this size.
_ROW = 0.2
_MARGIN = 1.5
_LABELS = 1.95
_PANEL = 0.92

_PASSES = 38
"""Points from a panel to the right end of the column of passes."""

TICKS = 2
"""Most steps between an axis's ticks."""


def dot_plot(run: RunFacts, named: Collection[str]) -> Picture | None:
    """Return a picture of the methods' means over the tasks, and of known answers; None without figures.

    The methods are ordered by the first panel, best on top. Lines are intervals, where the figure is of one task.

    Args:
        run: the run.
        named: methods whose names are bold.
    """
    overall = run.overall
    panels = {}
    for name in overall.metrics:
        title = PANELS.get(name)
        if name.startswith("planted_"):
            title = f"Finds\nplanted\n({name.removeprefix('planted_')})"
        if title is not None and overall.values(name):
            panels[name] = title
    if not panels:
        return None
    first = next(iter(panels))
    with_figures: dict[str, float] = {}
    for name in panels:
        with_figures |= overall.values(name)
    methods = list(with_figures)
    # Methods without the first figure come last.
    methods.sort(key=lambda method: overall.values(first).get(method, float("-inf")), reverse=True)
    return Picture(
        "figures/glance.svg",
        "Dashed: random scores.",
        f"A row per method: {', '.join(overall.metrics[name].heading for name in panels)}, passes",
        (_LABELS + _PANEL * len(panels), _MARGIN + _ROW * len(methods)),
        partial(_draw, overall, panels, methods, named),
    )


def _draw(
    overall: Evaluation, panels: dict[str, str], methods: Sequence[str], named: Collection[str], figure: Figure
) -> None:
    row_of_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (name, title) in zip(row_of_axes, panels.items(), strict=True):
        heading = overall.metrics[name].heading
        values = overall.values(name)
        axes.set_title(title, fontsize=9, fontweight="bold", loc="left")
        axes.set_xlabel(heading.replace(" ", "\n"))
        axes.xaxis.set_major_locator(MaxNLocator(TICKS))
        set_rows(axes, [overall.marked(method) for method in methods], "y")
        for method in overall.chance & values.keys():
            axes.axvline(values[method], color=FAINT, linewidth=1.2, linestyle="--", zorder=1)
        for row, method in enumerate(methods):
            if method not in values:
                continue
            figures = overall.figures[method]
            bounds = figures.get(f"{name}_low"), figures.get(f"{name}_high")
            words = f"{method}: {heading} {values[method]:.3f}"
            draw_value(axes, row, values[method], bounds, STYLES[overall.infos[method].family], words)
    figure.supxlabel("better →", fontsize=9)
    first: Axes = row_of_axes[0]
    last: Axes = row_of_axes[-1]
    for label, method in zip(first.get_yticklabels(), methods, strict=True):
        if method in named:
            label.set_fontweight("bold")
    beside: dict[str, Any] = {"textcoords": "offset points", "ha": "right"}
    forward = overall.values("forward_passes")
    backward = overall.values("backward_passes")
    if forward:
        above = (_PASSES, 6)
        last.annotate("passes", (1, 1), above, "axes fraction", fontsize=9, fontweight="bold", **beside)
    at_row = last.get_yaxis_transform()
    for row, method in enumerate(methods):
        if method in forward:
            count = f"{forward[method] + backward.get(method, 0.0):.0f}"
            last.annotate(count, (1, row), (_PASSES, 0), at_row, va="center", **beside)
    draw_legend(figure, overall.infos, methods, bool(overall.chance))
