"""The section that compares L2E's students with their teachers, like tables 1 to 5 of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

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


@dataclass(frozen=True, slots=True)
class StudentTable:
    """A table whose cells hold one or more metrics.

    Attributes:
        title: its caption.
        metrics: metrics of a cell, separated by slashes. The test of the last one decides what is bold.
        larger_is_better: direction of the metrics.
        percent: whether figures are shown in percent. digits: decimals shown.
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
    tables = [table for spec in TABLES if (table := _table(spec, documents, params.evaluate.significance, adapters))]
    return [
        Heading("Students against their teachers"),
        Paragraph(introduction),
        *tables,
        _fidelity(documents),
        *_times(documents),
    ]


def _table(
    spec: StudentTable, documents: Sequence[Document], significance: float, adapters: Mapping[str, str]
) -> Table | None:
    cells: dict[str, dict[Key, Mapping[str, Any]]] = {
        metric: {
            (formulation, document["task"], document["teacher"]): figures[metric]
            for document in documents
            for formulation, figures in document["formulations"].items()
            if figures[metric]["student"] is not None
        }
        for metric in spec.metrics
    }
    tested = cells[spec.metrics[-1]]
    if not any(cells.values()):
        return None
    # Cells in which student and teacher differ, after Holm's correction over the table.
    p_values = {key: figures["p_value"] for key, figures in tested.items() if figures["p_value"] is not None}
    adjusted = zip(p_values, holm(list(p_values.values())), strict=True)
    certain = {key for key, p_value in adjusted if p_value <= significance}
    shown = list(dict.fromkeys(key[:2] for key in tested))
    sides = [side for side in SIDES if side != "both" or spec.metrics == ("agreement",)]

    def number(value: float) -> str:
        return f"{100 * value if spec.percent else value:.{spec.digits}f}"

    def chance(formulation: str, task: str) -> str:
        parts = []
        for metric in spec.metrics:
            values = [of["random"] for key, of in cells[metric].items() if key[:2] == (formulation, task)]
            known = [value for value in values if value is not None]
            parts.append(number(fmean(known)) if known else "–")
        return " / ".join(parts)

    def cell(key: Key, side: str) -> Cell:
        if key not in tested or tested[key].get(side) is None:
            return Cell("–")
        parts = []
        for metric in spec.metrics:
            figures = cells[metric][key]
            error = figures.get(f"{side}_error") if spec.errors else None
            parts.append(number(figures[side]) + ("" if error is None else f" ± {number(error)}"))
        ahead = "student" if (tested[key]["student"] > tested[key]["teacher"]) is spec.larger_is_better else "teacher"
        formulation, task, teacher = key
        of_paper = published().l2e.get(spec.metrics[-1], {}).get(formulation, {}).get(adapters.get(task, ""), {})
        paper = f"{of_paper[teacher][list(SIDES).index(side)]:g}" if teacher in of_paper else ""
        return Cell(" / ".join(parts), mark="best" if key in certain and side == ahead else "", note=paper)

    rows: list[list[Cell | str]] = [["random", "", *(chance(*key) for key in shown)]]
    for teacher in dict.fromkeys(document["teacher"] for document in documents):
        for side in sides:
            rows.append([teacher, SIDES[side], *(cell((*key, teacher), side) for key in shown)])
    return Table(columns(["Teacher", ""], [", ".join(key) for key in shown]), rows, spec.title)


def _fidelity(documents: Sequence[Document]) -> Table:
    """Return how similar the word scores of students and teacher are, averaged over seeds."""
    students: dict[Key, list[Mapping[str, Any]]] = {}
    for document in documents:
        for student in document["students"]:
            students.setdefault((student["formulation"], document["task"], document["teacher"]), []).append(student)
    rows = []
    for (formulation, task, teacher), of_seeds in students.items():
        known = [[one[name] for one in of_seeds if one[name] is not None] for name in ALIKE]
        rows.append([teacher, task, formulation, *(f"{fmean(part):.2f}" if part else "–" for part in known)])
    titles = ["Spearman's rho of word scores", "Overlap of the top 20 % of words"]
    return Table(columns(["Teacher", "Task", "Formulation"], titles), rows, "Fidelity of students to their teachers")


def _times(documents: Sequence[Document]) -> list[Block]:
    """Return the times of teacher and student per text, and of training, if these ran on this machine."""
    rows = []
    for document in documents:
        if "seconds" in document:
            seconds = document["seconds"]
            parts = ("teacher", "classifier", "student_classified", "student")
            faster = [seconds["teacher"] / seconds[side] for side in ("student", "student_classified")]
            rows.append(
                [
                    document["teacher"],
                    document["task"],
                    *(f"{1000 * seconds[part]:.2f}" for part in parts),
                    *(f"{times:,.1f}×" for times in faster),
                    f"{fmean(document['training']):.0f}",
                ]
            )
    if not rows:
        return []
    titles = ["Teacher, ms per text", "Classifier", "L2E with classifier", "L2E, class known", "Speed-up, class known"]
    titles += ["Speed-up, with classifier", "Training, s"]
    return [Table(columns(["Teacher", "Task"], titles), rows, "Time (L2E figures 3 to 6)", machine=True)]
