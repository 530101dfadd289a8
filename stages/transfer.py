"""Stage transfer: an explainer with a classifier of its own, on the other tasks with the same classes."""

from typing import Annotated

import typer

from explearn.core.compute import ComputeOptions
from explearn.core.storage import write_json
from explearn_study.params import Params
from explearn_study.staging import stage
from explearn_study.transfer import transfer
from explearn_study.workspace import Workspace

ExplainerOption = Annotated[
    str, typer.Option(help="An explainer that trains a classifier of its own.", envvar="EXPLEARN_EXPLAINER")
]


@stage()
def run(explainer: ExplainerOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Judge an explainer, as trained on each task, on the test texts of every task with the same classes.

    Writes reports/metrics/transfer/EXPLAINER.json: by task, by the task that it was trained on, accuracy and the
    metrics of the four criteria.
    """
    workspace = Workspace()
    write_json(workspace.transfer(explainer), transfer(workspace, params, explainer, compute, seed))


if __name__ == "__main__":
    run()
