"""Stage study: a further comparison that a run asks for: marks_curve or students."""

from typing import Annotated

import typer

from explearn.cli.common import Compute
from explearn.core.errors import UnknownNameError
from explearn.core.writing import write_json
from explearn_study.distil import compare_with_students
from explearn_study.marks_curve import marks_curve
from explearn_study.staging import RunOptions, stage
from explearn_study.workspace import Workspace

StudyOption = Annotated[str, typer.Option(help="A name under `studies`.", envvar="EXPLEARN_STUDY")]


@stage
def run(study: StudyOption, run: RunOptions, compute: Compute) -> None:
    """Run a study on all of its tasks.

    marks_curve: Marker trained with none, some and all of a task's marked texts, evaluated on the run's test texts;
    writes reports/metrics/studies/marks_curve/TASK.json. students: students judged beside their teachers, as in L2E's
    tables; writes an `explearn.Evaluation` into reports/metrics/studies/students/TASK/TEACHER/FORMULATION/, and times
    to data/costs, outside DVC's outputs.
    """
    studies = run.params.studies.model_dump(exclude_none=True)
    if study not in studies:
        raise UnknownNameError("study", study, studies)
    workspace = Workspace()
    if study == "marks_curve":
        for task in run.params.curve_tasks:
            write_json(workspace.marks_curve(task), marks_curve(workspace, run.params, task, compute, run.seed))
    else:
        for task in run.params.plain_tasks:
            for teacher in run.params.compared_teachers:
                costs = {}
                judged = compare_with_students(workspace, run.params, task, teacher, compute, run.seed)
                for formulation, evaluation, seconds in judged:
                    evaluation.save(workspace.students(task, teacher, formulation))
                    costs[formulation] = seconds
                write_json(workspace.student_costs(task, teacher), costs)


if __name__ == "__main__":
    run()
