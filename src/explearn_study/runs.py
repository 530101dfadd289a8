"""Costs of the methods of a run, as measured on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from explearn.core.validation import read_document
from explearn.judge.runs import COST_FIGURES, Cost
from explearn_study.params import Params
from explearn_study.workspace import Workspace


def read_costs(workspace: Workspace, params: Params, task: str) -> dict[str, dict[str, float | None]]:
    """Method -> `Cost.figures`, all None for a method that was not timed here: its attributions are DVC's from a run
    elsewhere. Raises DataError for a damaged file.
    """
    return _figures(workspace.costs(task), params.methods)


def read_own_model_costs(
    workspace: Workspace, params: Params, task: str, explainer: str
) -> dict[str, dict[str, float | None]]:
    """The same of an explainer with a classifier of its own and the baselines run on that."""
    own = _figures(workspace.costs(task), [explainer])
    return own | _figures(workspace.costs(task, explainer), params.own_model)


def _figures(path: Path, methods: Iterable[str]) -> dict[str, dict[str, float | None]]:
    known = read_document(path, dict[str, Cost], "explain") if path.exists() else {}
    figures: dict[str, dict[str, float | None]] = {}
    for name in methods:
        figures[name] = Cost(**known[name]).figures() if name in known else dict.fromkeys(COST_FIGURES)
    return figures
