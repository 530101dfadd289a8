"""Shared by all figures: matplotlib's settings, colours and markers of method families, and conversion to SVG.

The SVG depends only on the numbers (no date, fixed ids) and keeps its text as text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from explearn.core.escape import printable
from explearn.methods.info import MethodInfo
from explearn.show.blocks import Picture

INK = "#010203"
"""Colour of text and lines, which `svg` replaces by one that follows the page: dark on light pages, light on dark."""

FAINT = "#80808080"
"""Colour of grids, on light and dark pages."""

# Okabe and Ito's colours, which colour-blind readers can distinguish; markers distinguish families without colour.
STYLES = {
    "learned": ("#D55E00", "D"),
    "chance": ("#7F7F7F", "X"),
    "attention": ("#0072B2", "o"),
    "gradient": ("#009E73", "^"),
    "relevance": ("#CC79A7", "s"),
    "perturbation": ("#E69F00", "v"),
    "decomposition": ("#56B4E9", "P"),
    "reason": ("#F0E442", "p"),
    "given": (INK, "*"),
}
"""Family -> colour and marker."""

SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "explearn",
    # Names of tasks and methods are not mathematics, even with a dollar sign.
    "text.parse_math": False,
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
"""matplotlib's settings for every figure."""


_THEME = "color:#59636e;color-scheme:light dark;color:light-dark(#1b1f27,#e9ecf1)"
"""Style of a picture: its ink is grey in a viewer that does not know `light-dark`."""

_VALUE = "value: "
"""Start of the ids of points, from which `svg` takes the text to show on hover."""


def draw_value(
    axes: Axes, row: int, value: float, bounds: tuple[float | None, float | None], style: tuple[str, str], words: str
) -> None:
    """Draw a value and its interval, if it has one, into a row of a picture.

    Args:
        axes: what to draw on.
        row: position of the row.
        value: the value.
        bounds: its interval; None for each bound if there is none.
        style: colour and marker, as in STYLES.
        words: text to show on hover; the interval is added.
    """
    colour, marker = style
    low, high = bounds
    if low is not None and high is not None:
        axes.plot([low, high], [row, row], color=colour, linewidth=1.6, zorder=2)
        words += f" ({low:.3f} to {high:.3f})"
    (point,) = axes.plot([value], [row], color=colour, marker=marker, markersize=6, zorder=3, clip_on=False)
    point.set_gid(f"{_VALUE}{words}")


def set_rows(axes: Axes, names: Sequence[str], grid: Literal["x", "y"]) -> None:
    """Name the rows of a picture, the first on top, and draw a grid."""
    axes.grid(axis=grid, color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), labels=names)


def svg(picture: Picture) -> str:
    """Draw a picture on a transparent background, control characters escaped. The same numbers give the same text."""
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=picture.size, layout="constrained")
        FigureCanvasSVG(figure)
        picture.draw(figure)
        drawing = io.StringIO()
        figure.savefig(drawing, format="svg", metadata={"Date": None}, transparent=True)
    themed = printable(drawing.getvalue()).replace(INK, "currentColor").replace("<svg ", f'<svg style="{_THEME}" ', 1)
    # matplotlib has escaped the text, and uses single quotes around text with double ones.
    shown = r'<g class="value" tabindex="0" role="img" aria-label=\1\2\1><title>\2</title>'
    return re.sub(rf"""<g id=(["']){_VALUE}(.*?)\1>""", shown, themed)


def draw_legend(figure: Figure, infos: Mapping[str, MethodInfo], methods: Iterable[str], chance: bool) -> None:
    """Draw a legend of method families, and of the line of chance, above the figure, in as many columns as fit."""
    families = {infos[method].family for method in methods}
    shown = [family for family in STYLES if family in families]
    handles = [Line2D([], [], color=STYLES[f][0], marker=STYLES[f][1], linestyle="none", label=f) for f in shown]
    if chance:
        handles.append(Line2D([], [], color=FAINT, linewidth=1.2, linestyle="--", label="chance level"))
    for columns in range(len(handles), 0, -1):
        legend = figure.legend(handles=handles, loc="outside upper center", ncols=columns, frameon=False)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        # Use more rows if long names would be cut at the figure's edge.
        legend.remove()
