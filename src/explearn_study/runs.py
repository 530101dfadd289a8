"""Costs of the methods of a run, as measured on this machine."""

from __future__ import annotations

from collections.abc import Iterable

from explearn.core.shapes import read_document
from explearn.judge.runs import COST_FIGURES, Cost, CostShape
from explearn_study.params import Params
from explearn_study.workspace import Workspace


def read_costs(workspace: Workspace, params: Params, task: str) -> dict[str, dict[str, float | None]]:
    """Method -> `Cost.figures`, all None for a method that was not timed here: its attributions are DVC's from a run
    elsewhere. Raises DataError for a damaged file.
    """
    return _figures(workspace, task, {name: params.group_of(name) for name in params.methods}.items())


def read_own_model_costs(
    workspace: Workspace, params: Params, task: str, explainer: str
) -> dict[str, dict[str, float | None]]:
    """The same of an explainer with a classifier of its own and the baselines run on that."""
    group = params.group_of(explainer)
    return _figures(workspace, task, [(name, group) for name in (explainer, *params.baselines.own_model)])


def _figures(workspace: Workspace, task: str, methods: Iterable[tuple[str, str]]) -> dict[str, dict[str, float | None]]:
    figures: dict[str, dict[str, float | None]] = {}
    for name, group in methods:
        path = workspace.costs(task, group)
        known = read_document(path, dict[str, CostShape], "attribute") if path.exists() else {}
        cost = {field: known[name][field] for field in CostShape.model_fields} if name in known else None
        figures[name] = dict.fromkeys(COST_FIGURES) if cost is None else Cost(**cost).figures()
    return figures
