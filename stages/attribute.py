"""Stage attribute: word scores of a task's test texts, by a group of methods."""

from typing import Annotated

import typer

from explearn.core.compute import ComputeOptions
from explearn.core.storage import atomic_folder
from explearn.models.classifier import Classifier
from explearn.pipeline.attribute import group_methods, texts_to_explain, write_attributions
from explearn.pipeline.params import Params
from explearn.pipeline.staging import TaskOption, stage
from explearn.pipeline.workspace import Workspace

GroupOption = Annotated[
    str,
    typer.Option(
        help="`quick`, `learned`, the name of a costly baseline or of a method that refines an explainer, or on_NAME: "
        "explainer NAME, and the baselines run on the classifier that it trained.",
        envvar="EXPLEARN_GROUP",
    ),
]


@stage()
def attribute(task: TaskOption, group: GroupOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Explain the predicted class of a task's test texts with every method of a group.

    Writes data/attributions/TASK/GROUP/METHOD.parquet, with the method's cost in the file's metadata. An explainer that
    trained a classifier of its own explains that one, as its file says.
    """
    workspace = Workspace()
    methods = group_methods(group, task, params, workspace, seed)
    classifier = Classifier.from_pretrained(workspace.explained(task, group), compute)
    marked = workspace.read_gold(task, params)
    examples = texts_to_explain(workspace.read_examples(task, "test"), marked, params.attribute.max_texts, seed)
    with atomic_folder(workspace.attributions(task, group)) as folder:
        for method, options in methods:
            write_attributions(folder / f"{method.name}.parquet", method, classifier, examples, options)


if __name__ == "__main__":
    attribute()
