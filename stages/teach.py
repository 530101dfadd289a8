"""Stage teach: a method's word scores of a task's training and validation texts, for students to learn from."""

from typing import Annotated

import typer

from explearn.cli.common import Compute
from explearn.core.errors import UnknownNameError
from explearn.methods.finding import find_explainer
from explearn.predictors.pretrained import load_classifier
from explearn.text.sampling import texts_to_explain
from explearn_study.staging import RunOptions, TaskOption, stage
from explearn_study.teacher_files import teach
from explearn_study.workspace import Workspace

TeacherOption = Annotated[str, typer.Option(help="A method under `teachers`.", envvar="EXPLEARN_TEACHER")]


@stage
def run(task: TaskOption, teacher: TeacherOption, run: RunOptions, compute: Compute) -> None:
    """Explain the predicted class of a task's training and validation texts, once, with one method.

    Writes data/teachers/TASK/TEACHER/, shard by shard: an interrupted run resumes.
    """
    teachers = run.params.teachers
    if teacher not in teachers:
        raise UnknownNameError("teacher", teacher, teachers)
    method = find_explainer(teacher, teachers[teacher].options, seed=run.seed)
    workspace = Workspace()
    classifier = load_classifier(workspace.classifier(task), compute)
    splits = {}
    for split in ("train", "validation"):
        most = run.params.teach.max_texts.get(split)
        splits[split] = texts_to_explain(workspace.read_examples(task, split), (), most, run.seed)
    teach(workspace.teacher(task, teacher), method, classifier, splits, description=f"{task}: {teacher}")


if __name__ == "__main__":
    run()
