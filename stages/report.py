"""Stage report: the report, its figures, and the headline metrics."""

from explearn.data.storage import read_json, write_json
from explearn.metrics.evaluate import headline
from explearn.params import Params
from explearn.reporting.collect import collect_task
from explearn.reporting.report import write_report
from explearn.staging import stage
from explearn.workspace import Workspace


@stage()
def report(params: Params, seed: int) -> None:
    """Put the metrics of all tasks together: report.md with figures/ for people, metrics.json for programs, and
    headline.json for `dvc metrics` and `dvc exp show`.

    Writes into reports/. Runs no model: of the compute options only the seed plays a part, in the choice of example
    texts.
    """
    workspace = Workspace()
    tasks = [collect_task(workspace, params, task, seed) for task in params.tasks]
    metrics = {task.task: task.methods for task in tasks}
    students = [
        read_json(workspace.distillation(task, teacher)) for task in params.tasks for teacher in params.distil.teachers
    ]
    write_report(workspace.reports, params, tasks, students)
    found = headline(params, metrics)
    write_json(workspace.reports / "metrics.json", {"headline": found, "tasks": metrics})
    f1_by_task = {task: methods[params.explainer]["f1"] for task, methods in metrics.items()}
    write_json(workspace.reports / "headline.json", {**found, "f1_by_task": f1_by_task})


if __name__ == "__main__":
    report()
