"""The report of a project, from the files that its stages left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from explearn.core.errors import DataError, problem_of
from explearn.core.shapes import read_document
from explearn.core.storage import put_files, scratch_folder
from explearn_study import shapes
from explearn_study.params import Params
from explearn_study.workspace import Workspace


def report_project(workspace: Workspace, params: Params, seed: int) -> None:
    """Write all files of the report (`explearn_study.report.files`) into the workspace's reports/.

    Everything is read and drawn before the first file of an earlier report is replaced.

    Raises DataError where a file of an earlier stage is missing, damaged or not of this run.
    """
    # These load matplotlib and scipy, which take seconds that --help need not wait for.
    from explearn_study.report.collect import collect_task
    from explearn_study.report.files import write_metrics, write_report

    tasks = []
    for task in params.tasks:
        with _told(f"task {task!r}: the files that the report is made from"):
            tasks.append(collect_task(workspace, params, task, seed))
    with scratch_folder(workspace.reports / "report") as drawn:
        with _told(f"{workspace.reports / 'metrics'}: the files"):
            students = [_students(workspace, task, name) for task in params.tasks for name in params.distil.teachers]
            transfers = [read_document(workspace.transfer(n), shapes.Transfer, "transfer") for n in params.transfer]
            write_report(drawn, params, tasks, students, transfers)
            write_metrics(drawn, params, tasks)
        put_files(drawn, workspace.reports)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Turn what a document of another shape raises, wherever its parts are used, into one sentence."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise DataError(
            f"{what} are not as the stages write them ({problem_of(error)}); run rationalise, finetune, evaluate, "
            "sanity, distil and transfer again"
        ) from error


def _students(workspace: Workspace, task: str, teacher: str) -> dict[str, Any]:
    """What the stage distil found, with what it cost where it ran on this machine."""
    found: dict[str, Any] = read_document(workspace.distillation(task, teacher), shapes.Distillation, "distil")
    costs = workspace.costs(task, f"l2e-{teacher}")
    return {**found, **(read_document(costs, shapes.DistillationCosts, "distil") if costs.exists() else {})}
