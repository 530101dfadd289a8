"""Stage variant: a method with other options than the run's, trained where it learns, and its word scores."""

from typing import Annotated

import typer

from explearn.core.compute import ComputeOptions
from explearn.core.errors import UnknownNameError
from explearn.core.storage import atomic_folder, write_json
from explearn.methods.registry import get_info
from explearn_study.attribute import attribute_group
from explearn_study.params import Params
from explearn_study.staging import TaskOption, stage
from explearn_study.train import train_explainer
from explearn_study.workspace import Workspace

VariantOption = Annotated[str, typer.Option(help="A name under `variants`.", envvar="EXPLEARN_VARIANT")]


@stage()
def variant(task: TaskOption, variant: VariantOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Train a variant for a task, if its method learns, and explain the task's test texts with it.

    Writes data/explainers/TASK/VARIANT/ as the stage train does (of a method without a training of its own variant.json
    alone, which says what it stands for), and data/attributions/TASK/VARIANT/ as the stage attribute does.
    """
    if variant not in params.variants:
        raise UnknownNameError("variant", variant, params.variants)
    workspace = Workspace()
    # What the second part reads is looked at before the first replaces anything.
    workspace.read_gold(task, params)
    if get_info(variant).trained:
        train_explainer(workspace, params, task, variant, compute, seed)
    else:
        with atomic_folder(workspace.explainer(task, variant)) as folder:
            write_json(folder / "variant.json", {"of": get_info(variant).of, "options": params.options_of(variant)})
    attribute_group(workspace, params, task, variant, compute, seed)


if __name__ == "__main__":
    variant()
