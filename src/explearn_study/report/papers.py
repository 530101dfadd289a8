"""The papers' figures next to ours, if a run has their data; L2E's students next to their teachers (its tables 1 to 5).

The papers' figures are in papers.yaml.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from pydantic import Field

from explearn.core.documents import read_yaml
from explearn.core.validation import Section
from explearn.methods.results import Tasks
from explearn.metrics.arrays import mean_of_known
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.significance import holm
from explearn.show.blocks import Block, Cell, Column, Heading, Paragraph, Table, columns
from explearn_study.params import Params


class PaperTable(Section):
    """A table of a paper, as papers.yaml describes it."""

    title: str
    paper: str
    source: str
    encoder: str
    note: str
    metric: str
    data: dict[str, str]
    figures: dict[str, list[float | None]]
    needs: list[str] = Field(default_factory=list)
    one_classifier: bool = False
    """Whether all methods explain the classifier that the explainer under study trained."""


class Papers(Section):
    """The content of papers.yaml."""

    notes: dict[str, str]
    left_out: dict[str, str]
    tables: list[PaperTable]
    l2e: dict[str, dict[str, dict[str, dict[str, list[float]]]]]


@functools.cache
def published() -> Papers:
    """Return the figures of the papers."""
    return Papers.model_validate(read_yaml(Path(__file__).with_name("papers.yaml")))


def paper_blocks(params: Params, tasks: Tasks) -> list[Block]:
    """Return the papers' tables with our figures, for the data sets that the run has.

    A table is left out if the run has only baselines of it. The best figure in each column is bold; a figure of ours
    that was not measured is a dash.
    """
    by_adapter: dict[str, Tasks] = {}
    for task in tasks:
        if task.task in params.sources:
            by_adapter[params.sources[task.task].adapter] = [task]
    encoders = list(dict.fromkeys(params.encoder_of(task)[0] for task in params.tasks))
    tables = [table for table in published().tables if _fits(table, params, by_adapter)]
    if not tables:
        return []
    papers = dict.fromkeys(table.paper for table in tables)
    missing = " ".join(f"Not shown from {paper}: {published().left_out[paper]}." for paper in papers)
    blocks: list[Block] = [Heading("Next to the paper's figures"), Paragraph(missing)]
    for table in tables:
        machine = CATALOGUE[table.metric].of_machine
        text = f"Encoder in the paper: {table.encoder}, here: {', '.join(encoders)}."
        # Names of checkpoints start with their owner.
        if not all(name.rpartition("/")[2].startswith(table.encoder) for name in encoders):
            text += " They differ: compare the order of the methods, not the figures."
        shared = [by_adapter.get(adapter, []) for adapter in table.data] or [list(tasks)]
        blocks.append(Paragraph(f"{text} {published().notes[table.note]}", machine=machine))
        blocks.append(_table(table, shared, machine))
    return blocks


def _fits(table: PaperTable, params: Params, adapters: Iterable[str]) -> bool:
    """Return whether the run has one of a table's data sets and one of its learned methods."""
    learned = params.methods.keys() - params.baseline_names
    if table.one_classifier and params.with_own_model:
        return False
    data = table.needs or table.data
    return not (learned.isdisjoint(table.figures) or set(adapters).isdisjoint(data))


def _table(table: PaperTable, shared: Sequence[Tasks], machine: bool) -> Table:
    """Return a table with the paper's figures next to ours.

    Args:
        table: the paper's table.
        shared: for each data set, our tasks of it; a data set without any has no columns.
        machine: whether the figures depend on the machine.
    """
    metric = CATALOGUE[table.metric]
    columns = [Column("Method", numeric=False, key=True)]
    rows: dict[str, list[Cell | str]] = {row: [row] for row in table.figures}
    for index, heading in enumerate(table.data.values() or ("all tasks",)):
        if not shared[index]:
            continue
        ours: dict[str, float | None] = {}
        for row in table.figures:
            values = [task.methods.get(row, {}).get(table.metric) for task in shared[index]]
            ours[row] = None
            if None not in values:
                ours[row] = mean_of_known(values)
        theirs = {row: figures[index] for row, figures in table.figures.items()}
        for source, by_row in (("paper", theirs), ("ours", ours)):
            columns.append(Column(f"{heading}, {source}", machine=machine))
            choose = max if metric.larger_is_better else min
            best = metric.shown(choose((value for value in by_row.values() if value is not None), default=None))
            for row, value in by_row.items():
                cell = Cell(metric.shown(value), value)
                if value is not None and cell.text == best:
                    cell = replace(cell, mark="best")
                rows[row].append(cell)
    return Table(columns, list(rows.values()), f"{table.title} ({table.paper}, {table.source})")


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

    def number(self, value: float | None) -> str:
        """Return a figure as it is shown, a dash for None."""
        if value is None:
            return "–"
        if self.percent:
            value *= 100
        return f"{value:.{self.digits}f}"

    def shown(self, figures: Mapping[str, Any], side: str) -> str:
        """Return the content of a side's cell."""
        parts = []
        for metric in self.metrics:
            part = self.number(figures[metric][side])
            error = figures[metric].get(f"{side}_error")
            if self.errors and error is not None:
                part += f" ± {self.number(error)}"
            parts.append(part)
        return " / ".join(parts)

    def at_random(self, cells: Sequence[Mapping[str, Any]]) -> str:
        """Return the content of the random words' cell: means over some cells' teachers."""
        parts = []
        for metric in self.metrics:
            mean = mean_of_known(figures[metric]["random"] for figures in cells)
            parts.append(self.number(mean))
        return " / ".join(parts)

    def better_side(self, figures: Mapping[str, Any]) -> str:
        """Return the side with the better figure of the metric that is tested."""
        tested = figures[self.metrics[-1]]
        if (tested["student"] > tested["teacher"]) is self.larger_is_better:
            return "student"
        return "teacher"


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
        table = _student_table(spec, documents, params.evaluate.significance, adapters)
        if table is not None:
            blocks.append(table)
    return [*blocks, _fidelity(documents), *_times(documents)]


def _student_table(
    spec: StudentTable, documents: Sequence[Document], significance: float, adapters: Mapping[str, str]
) -> Table | None:
    """Return a table with the papers' figures as notes; None if no document has the metric that is tested."""
    *_, tested = spec.metrics
    cells: dict[Key, Any] = {}
    for document in documents:
        for formulation, figures in document["formulations"].items():
            if figures[tested]["student"] is not None:
                cells[formulation, document["task"], document["teacher"]] = figures
    if not cells:
        return None
    p_values = {key: cell[tested]["p_value"] for key, cell in cells.items() if cell[tested]["p_value"] is not None}
    adjusted = zip(p_values, holm(list(p_values.values())), strict=True)
    certain = {key for key, p_value in adjusted if p_value <= significance}
    shown = list(dict.fromkeys(key[:2] for key in cells))
    rows: list[list[Cell | str]] = [["random", ""]]
    for columns_of in shown:
        of_teachers = [cell for key, cell in cells.items() if key[:2] == columns_of]
        rows[0].append(spec.at_random(of_teachers))
    sides = [side for side in SIDES if side != "both" or tested == "agreement"]
    for teacher in dict.fromkeys(document["teacher"] for document in documents):
        for side in sides:
            row: list[Cell | str] = [teacher, SIDES[side]]
            for formulation, task in shown:
                key = (formulation, task, teacher)
                if key not in cells:
                    row.append(Cell("–"))
                    continue
                cell = Cell(spec.shown(cells[key], side))
                if key in certain and side == spec.better_side(cells[key]):
                    cell = replace(cell, mark="best")
                paper = published().l2e.get(tested, {}).get(formulation, {}).get(adapters.get(task, ""), {})
                if teacher in paper:
                    cell = replace(cell, note=f"{paper[teacher][list(SIDES).index(side)]:g}")
                row.append(cell)
            rows.append(row)
    return Table(columns(["Teacher", ""], [", ".join(key) for key in shown]), rows, spec.title)


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
            mean = mean_of_known(student[name] for student in seeds)
            if mean is None:
                row.append("–")
            else:
                row.append(f"{mean:.2f}")
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
