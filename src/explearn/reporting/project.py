"""The report of a project, from the files that its stages left."""

from __future__ import annotations

from typing import Any

from explearn.core.storage import read_json
from explearn.pipeline.base.params import Params
from explearn.pipeline.base.workspace import Workspace


def report_project(workspace: Workspace, params: Params, seed: int) -> None:
    """Write all files of the report (`explearn.reporting.files`) into the workspace's reports/.

    Raises DataError where a file of an earlier stage is missing or damaged.
    """
    # These load matplotlib and scipy, which take seconds that --help need not wait for.
    from explearn.reporting.content.collect import collect_task
    from explearn.reporting.files import write_metrics, write_report

    tasks = [collect_task(workspace, params, task, seed) for task in params.tasks]
    students = [_students(workspace, task, teacher) for task in params.tasks for teacher in params.distil.teachers]
    transfers = [read_json(workspace.transfer(name)) for name in params.transfer]
    write_report(workspace.reports, params, tasks, students, transfers)
    write_metrics(workspace.reports, params, tasks)


def _students(workspace: Workspace, task: str, teacher: str) -> dict[str, Any]:
    """What the stage distil found, with what it cost where it ran on this machine."""
    costs = workspace.costs(task, f"l2e-{teacher}")
    return {**read_json(workspace.distillation(task, teacher)), **(read_json(costs) if costs.exists() else {})}
