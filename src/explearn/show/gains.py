"""Relative gains of one training over another, criterion by criterion, and the heat maps that show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explearn.show.task_report import Number

CRITERIA = {
    "sim": ("simulatability", 1),
    "comp": ("aopc_comprehensiveness", 1),
    "suff": ("aopc_sufficiency", -1),
    "cons": ("consistency", 1),
}
"""Criterion -> the metric that measures it, and 1 where larger is better, else -1."""

SMALLEST = 0.01
"""Relative gains over a figure closer to 0 than this mean nothing and are left out."""


@dataclass(frozen=True, slots=True, eq=False)
class GainMap:
    """A heat map of relative gains.

    Attributes:
        file: name of the SVG file. title: what the map shows.
        rows, columns: their names. gains: in percent, (rows, columns); NaN where there is nothing to compare.
    """

    file: str
    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    gains: NDArray[np.float64]


def gain(new: Number, old: Number, sign: int) -> float:
    """Relative gain of one figure over another in percent; NaN where either is unknown or the old one is close to 0."""
    if new is None or old is None or abs(old) < SMALLEST:
        return float("nan")
    return 100 * sign * (new - old) / abs(old)
