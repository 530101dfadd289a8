"""The report's section on IvRA: how it was trained, and the coefficients of heads and layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from explearn.show.blocks import Block, Fold, Heading, Paragraph, Picture
from explearn.show.display import AGAINST, FOR, hexadecimal


def draw_heat_map(axes: Any, values: ArrayLike, rows: Sequence[str], columns: Sequence[str], title: str) -> None:
    """Draw numbers onto matplotlib axes: blue below 0, orange above.

    Args:
        axes: where to draw.
        values: the numbers, shape (rows, columns).
        rows: names of the rows.
        columns: names of the columns.
        title: title of the drawing.
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


ACROSS = 3
"""Most methods and tasks beside each other."""

# In inches.
_CELL = 0.24
_MARGIN = 1.1

_BESIDE = 4.5
"""Cells beside the heads of a map: its labels, and those of the layers."""


def section(notes: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[Block]:
    """Return how IvRA's methods were trained on each task, and heat maps of the coefficients that they learned.

    Args:
        notes: task -> method -> its notes.
    """
    trainings: list[str] = []
    maps: dict[str, Mapping[str, Any]] = {}
    for task, by_method in notes.items():
        for method, noted in by_method.items():
            if "criteria" in noted:
                name = f"{method}, {task}"
                trainings.append(f"{name}: for {', '.join(noted['criteria'])}")
                maps[name] = noted["coefficients"]
    if not maps:
        return []
    layers, heads = np.shape(next(iter(maps.values()))["heads"])
    across = min(len(maps), ACROSS)
    width = across * (heads + _BESIDE) * _CELL
    height = ceil(len(maps) / across) * (layers * _CELL + _MARGIN)
    trained = f"Criteria: {'; '.join(trainings)}."
    picture = Picture(
        "figures/coefficients.svg",
        "Coefficients of heads and (on the right) layers, as differences from their mean",
        "Heat maps of heads and layers",
        (width, height),
        partial(_draw, maps, across),
    )
    return [Heading("IvRA"), Fold("Training, and learned weights of heads and layers", [Paragraph(trained), picture])]


def _draw(maps: Mapping[str, Mapping[str, Any]], across: int, figure: Any) -> None:
    heads = np.shape(next(iter(maps.values()))["heads"])[1]
    shape = ceil(len(maps) / across), 2 * across
    pairs = figure.subplots(*shape, squeeze=False, width_ratios=[heads, 1.5] * across).reshape(-1, 2)
    for axes in pairs[len(maps) :].flat:
        axes.set_visible(False)
    for (left, right), (title, coefficients) in zip(pairs, maps.items(), strict=False):
        values = np.array(coefficients["heads"])
        draw_heat_map(left, values - values.mean(), numbers(len(values)), numbers(heads), title)
        left.set_xlabel("head")
        left.set_ylabel("layer")
        right.set_visible("layers" in coefficients)
        if "layers" in coefficients:
            values = np.array(coefficients["layers"])[:, None]
            draw_heat_map(right, values - values.mean(), numbers(len(values)), [""], "layers")


def numbers(count: int) -> list[str]:
    """Return the numbers of `count` rows or columns, from 1."""
    return [str(number) for number in range(1, count + 1)]
