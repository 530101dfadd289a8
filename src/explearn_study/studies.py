"""The studies that a run may ask for, each written as JSON documents below reports/metrics/studies."""

from __future__ import annotations

from collections.abc import Callable

from explearn.core.compute import ComputeOptions
from explearn.core.writing import write_json
from explearn_study.distil import compare_with_students
from explearn_study.marks_curve import marks_curve
from explearn_study.params import Params
from explearn_study.workspace import Workspace


def write_curves(workspace: Workspace, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Write, for each task, how much marked texts bring."""
    for task in params.curve_tasks:
        write_json(workspace.study("marks_curve", task), marks_curve(workspace, params, task, compute, seed))


def write_students(workspace: Workspace, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Write, for each task and teacher, how its students compare with it; seconds a text go to data/costs."""
    for task in params.plain_tasks:
        for teacher in params.compared_teachers:
            figures, costs = compare_with_students(workspace, params, task, teacher, compute, seed)
            write_json(workspace.study("students", task, teacher), figures)
            write_json(workspace.student_costs(task, teacher), costs)


STUDIES: dict[str, Callable[[Workspace, Params, ComputeOptions, int], None]] = {
    "marks_curve": write_curves,
    "students": write_students,
}
