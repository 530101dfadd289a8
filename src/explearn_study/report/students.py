"""L2E's students next to their teachers, with the paper's figures (its tables 1 to 9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from explearn.evaluation.result import Evaluation
from explearn.metrics.arrays import mean_of_known
from explearn.metrics.base import Metric
from explearn.report.page import meanings
from explearn.show.blocks import Block, Cell, Fold, Heading, Mark, Paragraph, Table, columns
from explearn_study.params import Params
from explearn_study.report.papers import published
from explearn_study.sections import COMPARED, RANDOM, TEACHER
from explearn_study.workspace import Workspace, read_costs

PERCENT = ("prediction_agreement", "stability_semantic")
"""Metrics that the paper gives in percent."""


class Students(NamedTuple):
    """A teacher and its students, judged on a task.

    Attributes:
        task: the task.
        teacher: the teacher.
        formulation: how the students learned.
        evaluation: of teacher, students and random scores.
        costs: seconds (a text, by side) and training (of each student); empty if they were not trained here.
    """

    task: str
    teacher: str
    formulation: str
    evaluation: Evaluation
    costs: Mapping[str, Any]

    @property
    def names(self) -> list[str]:
        """The students' names."""
        return [name for name in self.evaluation.figures if name not in (TEACHER, RANDOM)]

    def mean(self, metric: str) -> float | None:
        """Return the mean of the students' figures."""
        return mean_of_known(self.evaluation.figures[name].get(metric) for name in self.names)

    def better(self, metric: str) -> str:
        """Return the better side in a metric if every student differs significantly from the teacher, else nothing."""
        tests = self.evaluation.comparisons.get(metric)
        if tests is None or not {TEACHER, *self.names} <= {*tests.methods}:
            return ""
        outcomes = {tests.outcome(name, TEACHER, tests.significance) for name in self.names}
        if outcomes == {1}:
            return "L2E"
        return "teacher" if outcomes == {-1} else ""


def read_students(workspace: Workspace, params: Params) -> list[Students]:
    """Return what the study `students` wrote."""
    study = params.studies.students
    found = []
    for task in params.plain_tasks:
        for teacher in params.compared_teachers:
            costs = read_costs(workspace.student_costs(task, teacher))
            for formulation in study.formulations if study else ():
                evaluation = Evaluation.load(workspace.students(task, teacher, formulation))
                found.append(Students(task, teacher, formulation, evaluation, costs.get(formulation, {})))
    return found


def student_blocks(params: Params, students: Sequence[Students]) -> list[Block]:
    """Return the section on students and their teachers.

    Args:
        params: the run's parameters.
        students: the results of the study; empty without it.
    """
    if not students:
        return []
    evaluation = students[0].evaluation
    metrics = [evaluation.metrics[name] for name in COMPARED if any(one.evaluation.values(name) for one in students)]
    about = (
        f"Every teacher explains {len(evaluation.example_ids)} test texts, and so do its students, which never see the "
        "classifier; their figures are means over seeds. Bold: better, significantly for every student. In brackets: "
        "the paper's figure, if a task has its data. The last column is the rank correlation with the teacher's scores."
    )
    by_formulation: dict[str, list[Students]] = {}
    for one in students:
        by_formulation.setdefault(one.formulation, []).append(one)
    blocks: list[Block] = [Heading("Students against their teachers"), Paragraph(about)]
    for formulation, some in by_formulation.items():
        heads = columns(["Task", "Teacher", "Side"], [*(metric.title for metric in metrics), "With teacher"])
        rows = [row for one in some for row in _rows(params, one, metrics)]
        table = Table(heads, rows, f"Students that learned by {formulation}")
        blocks.append(Fold(formulation, [meanings(metrics, evaluation.params, evaluation.unit), table]))
    return [*blocks, *_times(students)]


def _rows(params: Params, students: Students, metrics: Sequence[Metric]) -> Iterator[list[Cell | str]]:
    """Yield a row for each side."""
    evaluation = students.evaluation
    adapter = params.sources[students.task].adapter
    methods = list(evaluation.figures)
    alike = mean_of_known(
        float(evaluation.agreement[methods.index(TEACHER), methods.index(name)]) for name in students.names
    )
    for place, side in enumerate(("teacher", "L2E", "random")):
        row: list[Cell | str] = [students.task, students.teacher, side]
        for metric in metrics:
            value = evaluation.figures[side].get(metric.name) if side != "L2E" else students.mean(metric.name)
            mark: Mark = "best" if students.better(metric.name) == side else ""
            paper = published().l2e.get(metric.name, {}).get(students.formulation, {}).get(adapter, {})
            note = ""
            if students.teacher in paper and side != "random":
                theirs = paper[students.teacher][place] / (100 if metric.name in PERCENT else 1)
                note = metric.shown(theirs)
            row.append(Cell(metric.shown(value), value, mark, note))
        row.append("–" if alike is None or side != "L2E" else f"{alike:.2f}")
        yield row


def _times(students: Sequence[Students]) -> list[Block]:
    """Return the times of teacher and student per text, and of training, if these ran on this machine."""
    rows = []
    for one in students:
        if one.costs:
            seconds = one.costs["seconds"]
            parts = ("teacher", "classifier", "student_classified", "student")
            times = [f"{1000 * seconds[part]:.2f}" for part in parts]
            speedup = f"{seconds['teacher'] / seconds['student_classified']:,.1f}×"
            rows.append(
                [one.task, one.teacher, one.formulation, *times, speedup, f"{fmean(one.costs['training']):.0f}"]
            )
    if not rows:
        return []
    titles = [
        "Teacher, ms per text",
        "Classifier",
        "L2E with classifier",
        "L2E, class known",
        "Speed-up",
        "Training, s",
    ]
    table = Table(columns(["Task", "Teacher", "Formulation"], titles), rows, "L2E figures 3 to 6", machine=True)
    return [Fold("Times", [table], machine=True)]
