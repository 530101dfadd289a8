"""Splitting figures that depend on the machine from all others."""

from __future__ import annotations

from collections.abc import Mapping

from explearn.metrics.registry import CATALOGUE

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
