"""The figures that depend on the machine: costs of the methods, read, and kept apart from all other figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from explearn.core.documents import read_json
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.runs import COST_FIGURES, Cost
from explearn_study.workspace import Workspace

Number = int | float | None
Figures = dict[str, dict[str, Number]]
"""Method -> metric -> figure."""


def split_costs(metrics: Mapping[str, Mapping[str, Number]]) -> tuple[Figures, Figures]:
    """Split methods' figures into those that are the same on any machine, and those that depend on the machine.

    Both parts have every method, even if it has no figures there. The order of methods and metrics is kept.

    Args:
        metrics: method -> metric -> figure.
    """
    dependent = {name for name, metric in CATALOGUE.items() if metric.of_machine}
    figures: Figures = {}
    costs: Figures = {}
    for method, row in metrics.items():
        figures[method] = {name: value for name, value in row.items() if name not in dependent}
        costs[method] = {name: value for name, value in row.items() if name in dependent}
    return figures, costs


def join_costs(figures: Mapping[str, Mapping[str, Number]], costs: Mapping[str, Mapping[str, Number]]) -> Figures:
    """Join what `split_costs` split; the costs follow each method's other figures."""
    return {method: {**row, **costs[method]} for method, row in figures.items()}


def read_costs(workspace: Workspace, task: str, methods: Iterable[str]) -> dict[str, dict[str, float | None]]:
    """Return method -> `Cost.figures` and training_seconds, None for what was not timed on this machine.

    Such a method was run or trained elsewhere, and its files came from DVC's cache.

    Raises:
        DataError: the file is damaged.
    """
    figures: dict[str, dict[str, float | None]] = {}
    timed = workspace.costs(task)
    costs = read_json(timed) if timed.exists() else {}
    for name in methods:
        figures[name] = dict.fromkeys(COST_FIGURES)
        if name in costs:
            figures[name] = Cost(**costs[name]).figures()
        trained = workspace.training_cost(task, name)
        training = read_json(trained) if trained.exists() else {"training_seconds": None}
        figures[name] |= training
    return figures
