"""Stage attribute: word scores of a task's test texts, by a group of methods."""

from typing import Annotated

import typer

from explearn.core.compute import ComputeOptions
from explearn_study.attribute import attribute_group
from explearn_study.params import Params
from explearn_study.staging import TaskOption, stage
from explearn_study.workspace import Workspace

GroupOption = Annotated[
    str,
    typer.Option(
        help="`quick`, learned_ROOM, the name of a costly baseline or of a method that refines an explainer, or "
        "on_NAME: explainer NAME, and the baselines run on the classifier that it trained.",
        envvar="EXPLEARN_GROUP",
    ),
]


@stage()
def attribute(task: TaskOption, group: GroupOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Explain the predicted class of a task's test texts with every method of a group.

    Writes data/attributions/TASK/GROUP/METHOD.parquet, with the passes through the classifier in the file's metadata;
    times and memory go to data/costs, beside DVC's files. An explainer that trained a classifier of its own explains
    that one, as its file says.
    """
    attribute_group(Workspace(), params, task, group, compute, seed)


if __name__ == "__main__":
    attribute()
