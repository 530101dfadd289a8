"""Which figures depend on the machine of the run, and how they are kept apart from the others.

Times and memory differ from machine to machine, and from run to run. Files under version control hold none of them, so
that a rerun gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explearn.reporting.content.columns import Column
from explearn.reporting.content.task_report import Number

MACHINE_FIGURES = frozenset({"throughput", "relative_throughput", "peak_memory_mb", "seconds", "forward_seconds"})
"""Names of such figures among a method's metrics."""

Figures = Mapping[str, Mapping[str, Number]]
"""method -> metric -> value."""


def join_costs(figures: Figures, costs: Figures) -> dict[str, dict[str, Number]]:
    """Each method's figures with its costs."""
    return {method: {**found, **costs.get(method, {})} for method, found in figures.items()}


def of_machine(figures: Figures) -> dict[str, dict[str, Number]]:
    """The figures that depend on the machine alone."""
    return {method: {k: v for k, v in found.items() if k in MACHINE_FIGURES} for method, found in figures.items()}


def not_of_machine(figures: Figures) -> dict[str, dict[str, Number]]:
    """The figures that do not depend on the machine."""
    return {method: {k: v for k, v in found.items() if k not in MACHINE_FIGURES} for method, found in figures.items()}


def fixed_columns(columns: Sequence[Column]) -> list[Column]:
    """The columns whose figures do not depend on the machine."""
    return [column for column in columns if column.metric not in MACHINE_FIGURES]
