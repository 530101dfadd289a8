"""Stage train: a learned explainer for one task."""

from typing import Annotated

import typer

from explearn.core.compute import ComputeOptions
from explearn.core.errors import ParamsError
from explearn.core.seeds import seed_everything
from explearn.methods.base.explainer import LearnedExplainer
from explearn.methods.base.registry import get_explainer, get_info
from explearn.pipeline.params import Params
from explearn.pipeline.staging import TaskOption, stage
from explearn.pipeline.task_data import WorkspaceTask
from explearn.pipeline.workspace import Workspace

ExplainerOption = Annotated[str, typer.Option(help="A learned explainer's name.", envvar="EXPLEARN_EXPLAINER")]


@stage()
def train(task: TaskOption, explainer: ExplainerOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Train a learned explainer for a task, on what its protocol allows.

    Writes data/explainers/TASK/EXPLAINER/ (configuration as JSON, weights as safetensors).
    """
    seed_everything(seed)
    workspace = Workspace()
    method = get_explainer(explainer, **params.options_of(explainer), seed=seed)
    if not isinstance(method, LearnedExplainer):
        base = get_info(explainer).base
        raise ParamsError(f"explainer {explainer!r} has no training of its own; train {base!r}, which it starts from")
    method.fit(WorkspaceTask(workspace, params, task, compute), description=f"{task}: train {explainer}")
    method.save_pretrained(workspace.explainer(task, explainer))


if __name__ == "__main__":
    train()
