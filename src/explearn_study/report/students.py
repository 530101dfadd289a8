"""The section that compares L2E's students with their teachers, like tables 1 to 5 of the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from explearn.metrics.arrays import mean_of_known
from explearn.metrics.significance import holm
from explearn.show.blocks import Block, Cell, Heading, Paragraph, Table, columns
from explearn_study.params import Params
from explearn_study.report.papers import published

Document = Mapping[str, Any]
"""A result of `explearn_study.distil.compare_with_students` for one task and teacher."""
Key = tuple[str, str, str]
"""Formulation, task and teacher."""

ALIKE = ("rank_agreement", "top_overlap")
SIDES = {"teacher": "A", "student": "L2E", "both": "both"}


class StudentTable(NamedTuple):
    """A table whose cells hold one or more metrics.

    Attributes:
        title: its caption.
        metrics: metrics of a cell, separated by slashes. The test of the last one decides what is bold.
        larger_is_better: direction of the metrics.
        percent: whether figures are shown in percent.
        digits: decimals shown.
        errors: whether standard errors are shown.
    """

    title: str
    metrics: tuple[str, ...]
    larger_is_better: bool = True
    percent: bool = True
    digits: int = 1
    errors: bool = True


TABLES = (
    StudentTable("Agreement of predictions, % (L2E table 1)", ("agreement",), digits=0, errors=False),
    StudentTable(
        "Log-odds lost by masking words for the class (tables 2 and 9)",
        ("delta_log_odds_positive",),
        percent=False,
        digits=2,
    ),
    StudentTable(
        "Log-odds lost by masking words against the class (table 8); lower is better",
        ("delta_log_odds_negative",),
        larger_is_better=False,
        percent=False,
        digits=2,
    ),
    StudentTable("Stability among texts of similar meaning, IoU in % (table 3)", ("stability_semantic",)),
    StudentTable("Stability among texts of similar wording, IoU in % (tables 5 and 7)", ("stability_lexical",)),
    StudentTable("The same for meaning, without stop words (table 5)", ("stability_semantic_content",)),
    StudentTable("The same for wording, without stop words (table 5)", ("stability_lexical_content",)),
    StudentTable(
        "Precision / recall / F1 against marked words, % (table 4)",
        ("precision", "recall", "f1"),
        digits=0,
        errors=False,
    ),
)


def student_blocks(params: Params, documents: Sequence[Document]) -> list[Block]:
    """Return the paper's tables, except those whose metric no document has. Times depend on the machine."""
    study = params.studies.students
    if not documents or study is None:
        return []
    adapters = {task: source.adapter or "" for task, source in params.sources.items()}
    introduction = (
        "Students (L2E) were trained on a teacher's explanations (A) of the training texts. Both explain the same test "
        f"texts. If students learned to rank, both choose the top {study.percent:g} % of the words. If students "
        "learned levels, both choose their best words of positive (negative) level, as many as the one with fewer of "
        f"them has. L2E's figures are means over {study.seeds} students with different seeds, ± the standard error "
        "over texts. Both: the classifier predicts the same class for the two explanations. The better of A and L2E is "
        "bold if they differ significantly by Wilcoxon's test over the texts, after Holm's correction over the table "
        "(L2E, footnote 6). If a task has the paper's data, the paper's figure follows ours in brackets."
    )
    blocks: list[Block] = [Heading("Students against their teachers"), Paragraph(introduction)]
    for spec in TABLES:
        figures = TableFigures(spec, documents, params.evaluate.significance)
        if figures.tested:
            blocks.append(_table(figures, documents, adapters))
    return [*blocks, _fidelity(documents), *_times(documents)]


class TableFigures:
    """The figures of a table.

    Attributes:
        spec: the table.
        cells: metric -> key -> figures of teacher, student and chance.
        tested: the cells of the metric that is tested.
        certain: keys at which student and teacher differ, after Holm's correction over the table.
    """

    def __init__(self, spec: StudentTable, documents: Sequence[Document], significance: float) -> None:
        self.spec = spec
        self.cells: dict[str, dict[Key, Mapping[str, Any]]] = {metric: {} for metric in spec.metrics}
        for document in documents:
            for formulation, figures in document["formulations"].items():
                for metric in spec.metrics:
                    if figures[metric]["student"] is not None:
                        key = (formulation, document["task"], document["teacher"])
                        self.cells[metric][key] = figures[metric]
        self.tested = self.cells[spec.metrics[-1]]
        p_values = {key: cell["p_value"] for key, cell in self.tested.items() if cell["p_value"] is not None}
        adjusted = zip(p_values, holm(list(p_values.values())), strict=True)
        self.certain = {key for key, p_value in adjusted if p_value <= significance}

    def number(self, value: float) -> str:
        """Return a figure as it is shown."""
        shown = 100 * value if self.spec.percent else value
        return f"{shown:.{self.spec.digits}f}"

    def chance(self, formulation: str, task: str) -> str:
        """Return the figures of random words, averaged over the teachers."""
        parts = []
        for metric in self.spec.metrics:
            values = [cell["random"] for key, cell in self.cells[metric].items() if key[:2] == (formulation, task)]
            parts.append(_mean(values, self.number))
        return " / ".join(parts)

    def cell(self, key: Key, side: str, paper: str) -> Cell:
        """Return the cell of a side, with the paper's figure as its note."""
        tested = self.tested.get(key, {})
        if tested.get(side) is None:
            return Cell("–")
        parts = []
        for metric in self.spec.metrics:
            figures = self.cells[metric][key]
            part = self.number(figures[side])
            error = figures.get(f"{side}_error")
            if self.spec.errors and error is not None:
                part += f" ± {self.number(error)}"
            parts.append(part)
        student_ahead = (tested["student"] > tested["teacher"]) is self.spec.larger_is_better
        ahead = "student" if student_ahead else "teacher"
        return Cell(" / ".join(parts), mark="best" if key in self.certain and side == ahead else "", note=paper)


def _mean(values: Iterable[float | None], show: Callable[[float], str]) -> str:
    mean = mean_of_known(values)
    return "–" if mean is None else show(mean)


def _table(figures: TableFigures, documents: Sequence[Document], adapters: Mapping[str, str]) -> Table:
    spec = figures.spec
    shown = list(dict.fromkeys(key[:2] for key in figures.tested))
    sides = [side for side in SIDES if side != "both" or spec.metrics == ("agreement",)]
    rows: list[list[Cell | str]] = [["random", "", *(figures.chance(*key) for key in shown)]]
    for teacher in dict.fromkeys(document["teacher"] for document in documents):
        for side in sides:
            row: list[Cell | str] = [teacher, SIDES[side]]
            for formulation, task in shown:
                paper = _paper_figure(spec, formulation, adapters.get(task, ""), teacher, side)
                row.append(figures.cell((formulation, task, teacher), side, paper))
            rows.append(row)
    return Table(columns(["Teacher", ""], [", ".join(key) for key in shown]), rows, spec.title)


def _paper_figure(spec: StudentTable, formulation: str, adapter: str, teacher: str, side: str) -> str:
    """Return the paper's figure; "" where it has none."""
    by_adapter = published().l2e.get(spec.metrics[-1], {}).get(formulation, {})
    figures = by_adapter.get(adapter, {}).get(teacher)
    return "" if figures is None else f"{figures[list(SIDES).index(side)]:g}"


def _fidelity(documents: Sequence[Document]) -> Table:
    """Return how similar the word scores of students and teacher are, averaged over seeds."""
    students: dict[Key, list[Mapping[str, Any]]] = {}
    for document in documents:
        for student in document["students"]:
            key = (student["formulation"], document["task"], document["teacher"])
            students.setdefault(key, []).append(student)
    rows = []
    for (formulation, task, teacher), seeds in students.items():
        row = [teacher, task, formulation]
        for name in ALIKE:
            row.append(_mean((student[name] for student in seeds), "{:.2f}".format))
        rows.append(row)
    titles = ["Spearman's rho of word scores", "Overlap of the top 20 % of words"]
    return Table(columns(["Teacher", "Task", "Formulation"], titles), rows, "Fidelity of students to their teachers")


def _times(documents: Sequence[Document]) -> list[Block]:
    """Return the times of teacher and student per text, and of training, if these ran on this machine."""
    rows = []
    for document in documents:
        if "seconds" not in document:
            continue
        seconds = document["seconds"]
        row = [document["teacher"], document["task"]]
        for part in ("teacher", "classifier", "student_classified", "student"):
            row.append(f"{1000 * seconds[part]:.2f}")
        for side in ("student", "student_classified"):
            row.append(f"{seconds['teacher'] / seconds[side]:,.1f}×")
        row.append(f"{fmean(document['training']):.0f}")
        rows.append(row)
    if not rows:
        return []
    titles = [
        "Teacher, ms per text",
        "Classifier",
        "L2E with classifier",
        "L2E, class known",
        "Speed-up, class known",
        "Speed-up, with classifier",
        "Training, s",
    ]
    return [Table(columns(["Teacher", "Task"], titles), rows, "Time (L2E figures 3 to 6)", machine=True)]
