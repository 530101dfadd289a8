"""Stage fit: a learned explainer for one task."""

from typing import Annotated

import typer

from explearn.core.compute import ComputeOptions
from explearn.core.errors import UnknownNameError
from explearn_study.params import Params
from explearn_study.staging import TaskOption, stage
from explearn_study.train import fit_explainer
from explearn_study.workspace import Workspace

MethodOption = Annotated[str, typer.Option(help="Name of a method under `learned`.", envvar="EXPLEARN_METHOD")]


@stage
def fit(task: TaskOption, method: MethodOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Train a learned explainer for a task, on what its protocol allows.

    Writes data/explainers/TASK/METHOD/ (configuration as JSON, weights as safetensors).
    """
    learned = [entry.name for entry in params.trained]
    if method not in learned:
        raise UnknownNameError("learned method", method, learned)
    fit_explainer(Workspace(), params, task, method, compute, seed)


if __name__ == "__main__":
    fit()
