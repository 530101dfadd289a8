"""The figures that depend on the machine: costs of the methods, read, and kept apart from all other figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from explearn.core.documents import read_json
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.runs import COST_FIGURES, Cost

Number = int | float | None
Figures = dict[str, dict[str, Number]]
"""Method -> metric -> figure."""


def split_costs(metrics: Mapping[str, Mapping[str, Number]]) -> tuple[Figures, Figures]:
    """Split methods' figures into those that are the same on any machine, and those that depend on the machine.

    Both parts have every method, even if it has no figures there. The order of methods and metrics is kept.

    Args:
        metrics: method -> metric -> figure.
    """
    of_machine = {name for name, metric in CATALOGUE.items() if metric.of_machine}
    figures: Figures = {}
    costs: Figures = {}
    for method, row in metrics.items():
        figures[method] = {name: value for name, value in row.items() if name not in of_machine}
        costs[method] = {name: value for name, value in row.items() if name in of_machine}
    return figures, costs


def join_costs(figures: Mapping[str, Mapping[str, Number]], costs: Mapping[str, Mapping[str, Number]]) -> Figures:
    """Join what `split_costs` split; the costs follow each method's other figures."""
    return {method: {**row, **costs[method]} for method, row in figures.items()}


def read_costs(path: Path, methods: Iterable[str]) -> dict[str, dict[str, float | None]]:
    """Return method -> `Cost.figures`, all None for a method that was not timed on this machine.

    Such a method was run elsewhere, and its attributions came from DVC's cache.

    Raises:
        DataError: the file is damaged.
    """
    figures: dict[str, dict[str, float | None]] = {name: dict.fromkeys(COST_FIGURES) for name in methods}
    if path.exists():
        for name, cost in read_json(path).items():
            if name in figures:
                figures[name] = Cost(**cost).figures()
    return figures
