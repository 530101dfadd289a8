"""Stage fit: a learned explainer for one task."""

from typing import Annotated

import typer

from explearn.cli.common import Compute
from explearn.core.errors import UnknownNameError
from explearn_study.staging import RunOptions, TaskOption, stage
from explearn_study.train import fit_explainer
from explearn_study.workspace import Workspace

MethodOption = Annotated[str, typer.Option(help="Name of a method under `learned`.", envvar="EXPLEARN_METHOD")]


@stage
def fit(task: TaskOption, method: MethodOption, run: RunOptions, compute: Compute) -> None:
    """Train a learned explainer for a task, on what its protocol allows.

    Writes data/explainers/TASK/METHOD/ (configuration as JSON, weights as safetensors).
    """
    learned = [entry.name for entry in run.params.trained]
    if method not in learned:
        raise UnknownNameError("learned method", method, learned)
    fit_explainer(Workspace(), run.params, task, method, compute, run.seed)


if __name__ == "__main__":
    fit()
