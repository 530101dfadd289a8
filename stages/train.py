"""Stage train: a learned explainer for one task."""

from typing import Annotated

import typer

from explearn.core.compute import ComputeOptions
from explearn_study.params import Params
from explearn_study.staging import TaskOption, stage
from explearn_study.train import train_explainer
from explearn_study.workspace import Workspace

ExplainerOption = Annotated[str, typer.Option(help="A learned explainer's name.", envvar="EXPLEARN_EXPLAINER")]


@stage()
def train(task: TaskOption, explainer: ExplainerOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Train a learned explainer for a task, on what its protocol allows.

    Writes data/explainers/TASK/EXPLAINER/ (configuration as JSON, weights as safetensors).
    """
    train_explainer(Workspace(), params, task, explainer, compute, seed)


if __name__ == "__main__":
    train()
