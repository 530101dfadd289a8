"""Stage distil: students of one teacher against that teacher, in both formulations and over several seeds."""

from typing import Annotated

import typer

from explearn.core.compute import ComputeOptions
from explearn.core.errors import UnknownNameError
from explearn.core.storage import write_json
from explearn_study.distil import compare_with_students
from explearn_study.params import Params
from explearn_study.staging import TaskOption, stage
from explearn_study.workspace import Workspace

TeacherOption = Annotated[str, typer.Option(help="One of `distil.teachers`.", envvar="EXPLEARN_TEACHER")]


@stage()
def run(task: TaskOption, teacher: TeacherOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Train students of a teacher (formulations x seeds) and compare them with it on test texts, as L2E's tables do.

    Writes reports/metrics/l2e/TASK/TEACHER.json: figures of every metric by formulation, and how training went. Seconds
    a text of teacher, student and classifier go to data/costs, beside DVC's files.
    """
    if teacher not in params.distil.teachers:
        raise UnknownNameError("teacher", teacher, params.distil.teachers)
    workspace = Workspace()
    figures, costs = compare_with_students(workspace, params, task, teacher, compute, seed)
    write_json(workspace.distillation(task, teacher), figures)
    write_json(workspace.costs(task, f"l2e-{teacher}"), costs)


if __name__ == "__main__":
    run()
