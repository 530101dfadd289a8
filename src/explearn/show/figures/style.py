"""What all figures share: matplotlib's settings, the families' colours and markers, and how a file is written.

The SVG files depend on the numbers alone (no date, fixed ids) and keep their text as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from explearn.core.storage import atomic_path

# Colours of Okabe and Ito, which colour-blind readers can tell apart; the markers tell families apart without colour.
_STYLES = {
    "learned": ("#D55E00", "D"),
    "chance": ("#7F7F7F", "X"),
    "attention": ("#0072B2", "o"),
    "gradient": ("#009E73", "^"),
    "relevance": ("#CC79A7", "s"),
    "perturbation": ("#E69F00", "v"),
    "decomposition": ("#56B4E9", "P"),
}
_OTHER_STYLE = ("#000000", "*")

SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "explearn",
    # Names of tasks and methods are not mathematics, even with a dollar sign.
    "text.parse_math": False,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
"""matplotlib's settings for every figure."""

Styles = Mapping[str, tuple[str, str]]
"""Family -> colour and marker."""


def family_styles(families: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Colour and marker of each family; families without a style of their own share one."""
    return _STYLES | dict.fromkeys(sorted(set(families) - set(_STYLES)), _OTHER_STYLE)


def draw_legend(figure: Figure, families: Sequence[str], styles: Styles, most_columns: int | None = None) -> None:
    """Name the families above the figure, in at most `most_columns` columns (None: any number), as many as fit."""
    shown = sorted(set(families), key=list(styles).index)
    handles = [Line2D([], [], color=styles[f][0], marker=styles[f][1], linestyle="none", label=f) for f in shown]
    columns = len(shown) if most_columns is None else min(len(shown), most_columns)
    while True:
        legend = figure.legend(handles=handles, loc="outside upper center", ncols=max(1, columns), frameon=False)
        if columns <= 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        # Long names: more rows in place of names that are cut at the figure's edge.
        legend.remove()
        columns -= 1


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's suffix, without a date; the file is whole or not there."""
    with atomic_path(path) as partial:
        # The partial file has another suffix, so the format is given.
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(partial, format=path.suffix[1:], metadata=metadata, facecolor="white", dpi=110)
