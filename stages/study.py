"""Stage study: a further comparison that a run asks for: marks_curve or students."""

from typing import Annotated

import typer

from explearn.core.compute import ComputeOptions
from explearn.core.errors import UnknownNameError
from explearn_study.params import Params
from explearn_study.staging import stage
from explearn_study.studies import STUDIES
from explearn_study.workspace import Workspace

StudyOption = Annotated[str, typer.Option(help="A name under `studies`.", envvar="EXPLEARN_STUDY")]


@stage
def run(study: StudyOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Run a study on all of its tasks.

    marks_curve: Marker trained with none, some and all of a task's marked texts, evaluated on the run's test texts;
    writes reports/metrics/studies/marks_curve/TASK.json. students: students compared with their teachers, as in L2E's
    tables; writes reports/metrics/studies/students/TASK/TEACHER.json, and times to data/costs, outside DVC's outputs.
    """
    studies = [name for name in STUDIES if getattr(params.studies, name) is not None]
    if study not in studies:
        raise UnknownNameError("study", study, studies)
    STUDIES[study](Workspace(), params, compute, seed)


if __name__ == "__main__":
    run()
