"""Stage distil: students of one teacher against that teacher, in both formulations and over several seeds."""

from typing import Annotated

import typer

from explearn.core.compute import ComputeOptions
from explearn.core.errors import UnknownNameError
from explearn.core.shapes import read_document
from explearn.core.storage import write_json
from explearn.judge.plausibility import rationale_k
from explearn.methods.base.teachers import make_teacher, members
from explearn.model.classifier import Classifier
from explearn.text.choice import texts_to_explain
from explearn_study.distil import compare_with_students
from explearn_study.params import Params
from explearn_study.shapes import AgreementFile
from explearn_study.staging import TaskOption, stage
from explearn_study.teacher_files import read_lessons
from explearn_study.workspace import Workspace

TeacherOption = Annotated[str, typer.Option(help="One of `distil.teachers`.", envvar="EXPLEARN_TEACHER")]


@stage()
def run(task: TaskOption, teacher: TeacherOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Train students of a teacher (formulations x seeds) and compare them with it on test texts, as L2E's tables do.

    Writes reports/metrics/l2e/TASK/TEACHER.json: figures of every metric by formulation, and how training went. Seconds
    a text of teacher, student and classifier go to data/costs, beside DVC's files.
    """
    if teacher not in params.distil.teachers:
        raise UnknownNameError("teacher", teacher, params.distil.teachers)
    workspace = Workspace()
    classifier = Classifier.from_pretrained(workspace.classifier(task), compute)
    lessons = read_lessons([workspace.teacher(task, name) for name in members(teacher)], classifier.fingerprint)
    methods = make_teacher(teacher, params.teachers, seed)
    examples = workspace.read_examples(task)
    gold = workspace.read_gold(task, params)
    tests = [example for example in examples if example.split == "test"]
    found, costs = compare_with_students(
        teacher,
        methods,
        lessons,
        classifier,
        [example for example in examples if example.split != "test"],
        texts_to_explain(tests, gold, params.distil.max_texts, seed),
        gold,
        rationale_k(read_document(workspace.agreement(task), AgreementFile, "rationalise")["mean_length"]),
        params,
        seed,
        task,
    )
    write_json(workspace.distillation(task, teacher), found)
    write_json(workspace.costs(task, f"l2e-{teacher}"), costs)


if __name__ == "__main__":
    run()
