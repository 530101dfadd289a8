"""A critical-difference diagram: methods by their mean rank, with a bar over those that do not differ significantly.

Source: Demsar (2006), Statistical Comparisons of Classifiers over Multiple Data Sets, figure 1; with the paired tests
of `explearn.metrics.significance` in place of Nemenyi's, as Benavoli, Corani and Mangili (2016) advise.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import ceil

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from explearn.core.arrays import Array
from explearn.metrics.arrays import ranks, without_rounding
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.significance import PairedTests
from explearn.report.figures.style import INK
from explearn.show.blocks import Picture

WIDTH = 8.5
"""In inches, as the heights."""

TICKS = 12
"""Most ticks of the axis."""

_ROW = 0.24
_BAR = 0.1
_MARGIN = 0.75


def mean_ranks(tests: PairedTests, by_text: Mapping[str, ArrayLike]) -> Array:
    """Return each method's mean rank over the texts on which all have a value, (methods,); 1 is the best.

    Args:
        tests: paired tests of the methods.
        by_text: method -> value on each text, (texts,), NaN where undefined.
    """
    values = np.stack([np.asarray(by_text[method], dtype=np.float64) for method in tests.methods], axis=1)
    defined = values[~np.isnan(values).any(axis=1)]
    if tests.larger_is_better:
        defined = -defined
    behind = defined - defined.min(axis=1, keepdims=True)
    mean: Array = ranks(without_rounding(behind, float(np.abs(values).max(initial=0.0)))).mean(axis=0)
    return mean


def groups(tests: PairedTests, order: NDArray[np.intp]) -> list[tuple[int, int]]:
    """Return the maximal runs of methods in an order within which no two differ significantly, as (first, last)."""
    same = tests.adjusted[np.ix_(order, order)] >= tests.significance
    runs: list[tuple[int, int]] = []
    for first in range(len(order)):
        last = first
        while last + 1 < len(order) and same[last + 1, first : last + 1].all():
            last += 1
        if last > first and (not runs or last > runs[-1][1]):
            runs.append((first, last))
    return runs


def critical_difference_picture(tests: PairedTests, by_text: Mapping[str, ArrayLike]) -> Picture:
    """Return a critical-difference diagram of a metric.

    Args:
        tests: paired tests of the methods.
        by_text: method -> value on each text, (texts,), NaN where undefined.
    """
    rank = mean_ranks(tests, by_text)
    order = np.argsort(rank, kind="stable")
    bars = groups(tests, order)
    heading = CATALOGUE[tests.metric].heading
    height = _MARGIN + _BAR * len(bars) + _ROW * ceil(len(rank) / 2)
    return Picture(
        f"figures/{tests.metric}_ranks.svg",
        f"Mean rank of each method by {heading}; a bar joins methods that do not differ significantly",
        f"Critical-difference diagram: {heading}",
        (WIDTH, height),
        partial(_draw, [tests.methods[i] for i in order], rank[order], bars, heading),
    )


def _draw(methods: list[str], rank: Array, bars: list[tuple[int, int]], heading: str, figure: Figure) -> None:
    axes = figure.subplots()
    count = len(methods)
    half = ceil(count / 2)
    depth = _BAR * len(bars)
    for row, (first, last) in enumerate(bars):
        ends = [rank[first] - 0.04, rank[last] + 0.04]
        axes.plot(ends, [_BAR * (row + 0.7)] * 2, color="#0072B2", linewidth=3.5, solid_capstyle="butt")
    for number, (method, mean) in enumerate(zip(methods, rank, strict=True)):
        # The better half is on the left, the other one on the right, from the outside in.
        row = number
        edge = 0.85
        side = "right"
        text = f"{method}  {mean:.2f} "
        if number >= half:
            row = count - 1 - number
            edge = count + 0.15
            side = "left"
            text = f" {mean:.2f}  {method}"
        level = depth + _ROW * (row + 0.8)
        axes.plot([mean, mean, edge], [0, level, level], color=INK, linewidth=0.9, clip_on=False)
        axes.text(edge, level, text, ha=side, va="center")
    axes.set_xlim(1, count)
    axes.set_ylim(depth + _ROW * (half + 0.3), 0)
    axes.set_xticks(range(1, count + 1, ceil(count / TICKS)))
    axes.xaxis.tick_top()
    axes.spines["top"].set_visible(True)
    for side in ("bottom", "left"):
        axes.spines[side].set_visible(False)
    axes.set_yticks([])
    figure.suptitle(f"Mean rank by {heading} (1: best)", fontsize=9)
