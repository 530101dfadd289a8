"""Heat maps of numbers, drawn by matplotlib in the colours used for word scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from explearn.show.display import AGAINST, FOR, hexadecimal

DARK = 0.75
"""Share of the largest value above which a cell's text is white."""


def draw_heat_map(
    axes: Any, values: ArrayLike, rows: Sequence[str], columns: Sequence[str], title: str = "", form: str = ""
) -> None:
    """Draw numbers onto matplotlib axes: blue below 0, orange above, a dash for NaN.

    Args:
        axes: where to draw.
        values: the numbers, shape (rows, columns).
        rows: names of the rows.
        columns: names of the columns.
        title: title of the drawing.
        form: format of the numbers in the cells, such as "+.2f"; empty for no numbers.
    """
    from matplotlib.colors import LinearSegmentedColormap

    cells = np.asarray(values, dtype=np.float64)
    largest = float(np.nanmax(np.abs(cells), initial=0.0)) or 1.0
    colours = LinearSegmentedColormap.from_list("explearn", [hexadecimal(AGAINST), "white", hexadecimal(FOR)])
    axes.imshow(cells, cmap=colours, vmin=-largest, vmax=largest, aspect="auto")
    axes.set_title(title, fontsize=9, fontweight="bold", loc="left")
    axes.set_xticks(range(len(columns)), labels=columns, fontsize=8)
    axes.set_yticks(range(len(rows)), labels=rows, fontsize=8)
    axes.tick_params(length=0)
    if not form:
        return
    for (row, column), value in np.ndenumerate(cells):
        text = format(value, form)
        colour = "black"
        if np.isnan(value):
            text = "–"
        if abs(value) > DARK * largest:
            colour = "white"
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
