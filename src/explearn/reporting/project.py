"""The report of a project, from the files that its stages left."""

from __future__ import annotations

from explearn.core.storage import read_json, write_json
from explearn.metrics.headline import headline
from explearn.pipeline.params import Params
from explearn.pipeline.workspace import Workspace
from explearn.reporting.content.collect import collect_task
from explearn.reporting.pages.markdown import write_report


def report_project(workspace: Workspace, params: Params, seed: int) -> None:
    """Write the report with its figures, metrics.json and headline.json into the workspace's reports/.

    Raises DataError where a file of an earlier stage is missing or damaged.
    """
    tasks = [collect_task(workspace, params, task, seed) for task in params.tasks]
    metrics = {task.task: task.methods for task in tasks}
    students = [
        read_json(workspace.distillation(task, teacher)) for task in params.tasks for teacher in params.distil.teachers
    ]
    transfers = [read_json(workspace.transfer(name)) for name in params.transfer]
    write_report(workspace.reports, params, tasks, students, transfers)
    found = headline(params.explainer, params.baseline_names, metrics)
    write_json(workspace.reports / "metrics.json", {"headline": found, "tasks": metrics})
    f1_by_task = {task: methods[params.explainer]["f1"] for task, methods in metrics.items()}
    write_json(workspace.reports / "headline.json", {**found, "f1_by_task": f1_by_task})
