"""Costs of the methods of a run, as measured on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from explearn.metrics.runs import COST_FIGURES, Cost
from explearn_study.workspace import read_document


def read_costs(path: Path, methods: Iterable[str]) -> dict[str, dict[str, float | None]]:
    """Return method -> `Cost.figures`, all None for a method that was not timed on this machine.

    Such a method was run elsewhere, and its attributions came from DVC's cache.

    Raises:
        DataError: the file is damaged.
    """
    figures: dict[str, dict[str, float | None]] = {name: dict.fromkeys(COST_FIGURES) for name in methods}
    if path.exists():
        for name, cost in read_document(path, dict[str, Cost], "explain").items():
            if name in figures:
                figures[name] = Cost(**cost).figures()
    return figures
