"""Tables of L2E's students against their teachers, laid out like tables 1 to 5 of the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from explearn.judge.significance import holm
from explearn.show.blocks import Block
from explearn.show.markdown import Markdown, escape_markdown
from explearn_study.params import Params

Document = Mapping[str, Any]
"""What `explearn_study.distil.compare_with_students` gives for one task and teacher."""
Cells = Mapping[tuple[str, str, str], Mapping[str, Any]]
"""(formulation, task, teacher) -> figures of one metric."""


@dataclass(frozen=True, slots=True)
class _Spec:
    """A table whose cells hold one or more metrics.

    Attributes:
        title: its caption.
        metrics: those of a cell, separated by slashes. The test of the last one decides what is bold.
        larger_is_better: direction of the metrics.
        scale: factor of the figures. digits: decimals shown.
        both: whether there is a row for teacher and student together. errors: whether standard errors are shown.
        paper: (formulation, adapter) -> the paper's figures, by teacher; None where it has none.
    """

    title: str
    metrics: tuple[str, ...]
    larger_is_better: bool
    scale: float = 1.0
    digits: int = 2
    both: bool = False
    errors: bool = True
    paper: Mapping[tuple[str, str], Sequence[float | None]] = field(default_factory=dict)


PAPER_TEACHERS = ("occlusion", "input_x_gradient", "full_lrp", "lime", "kernel_shap", "deep_shap")
"""The paper's teachers, in its order; what it calls gradient is input x gradient."""

_AGREEMENT = {
    ("ranking", "ag_news"): (94, 89, 89, 89, 91, 91, 97, 90, 93, 100, 96, 96, 79, 89, 80, 82, 77, 76),
    ("ranking", "sst2"): (88, 83, 85, 73, 66, 73, 95, 83, 84, 86, 81, 81, 34, 70, 58, 68, 70, 64),
    ("ranking", "cola"): (67, 65, 98, 65, 65, 100, 67, 67, 100, 67, 65, 98, 63, 63, 100, 65, 65, 100),
    ("labelling", "ag_news"): (81, 84, 82, 87, 94, 89, 85, 86, 83, 99, 98, 97, 70, 90, 74, 81, 82, 78),
    ("labelling", "sst2"): (89, 90, 85, 71, 70, 77, 83, 85, 90, 84, 82, 80, 23, 70, 51, 70, 73, 69),
    ("labelling", "cola"): (76, 80, 94, 68, 70, 92, 62, 52, 90, 71, 80, 89, 72, 72, 100, 59, 59, 100),
}
"""Table 1: for each of PAPER_TEACHERS, the figures of the teacher, the student and both."""

_LOG_ODDS = {
    ("labelling", "ag_news"): (3.69, 6.82, 2.69, 6.59, 1.87, 2.09, 11.06, 11.31, 4.33, 3.24, 1.16, 2.25),
    ("labelling", "sst2"): (5.04, 4.79, 5.29, 6.47, 4.48, 3.68, 5.70, 5.26, 0.22, 2.81, 4.82, 7.61),
    ("labelling", "cola"): (None, None, 1.87, 1.80, 1.18, 0.92, 1.41, 1.41, 1.96, 1.97, 1.22, 1.02),
}
"""Table 2: for each of PAPER_TEACHERS, the figures of the teacher and the student."""

_STABILITY = {
    ("ranking", "ag_news"): (7.18, 8.96, 7.17, 10.36, 10.20, 11.20, 8.24, 12.44, 7.47, 12.84, 6.68, 8.67),
    ("ranking", "sst2"): (4.58, 8.52, 3.87, 7.41, 1.13, 7.75, 3.01, 5.01, 2.49, 2.82, 2.87, 1.43),
    ("ranking", "cola"): (15.59, 21.26, 8.63, 20.75, 10.92, 19.45, 13.96, 16.78, 19.12, 18.78, 16.80, 20.82),
    ("labelling", "ag_news"): (10.82, 13.94, 9.02, 14.38, 13.84, 14.67, 8.61, 13.89, 5.75, 9.15, 7.22, 10.05),
    ("labelling", "sst2"): (7.04, 8.38, 6.33, 7.27, 6.28, 7.45, 6.92, 8.24, 1.47, 1.73, 6.66, 8.41),
    ("labelling", "cola"): (23.67, 26.47, 10.40, 22.09, 22.53, 26.45, 17.48, 25.35, 22.39, 21.82, 13.05, 21.88),
}
"""Table 3: for each of PAPER_TEACHERS, the figures of the teacher and the student."""

SPECS = (
    _Spec(
        "Agreement of predictions, % (L2E table 1)",
        ("agreement",),
        True,
        100,
        0,
        both=True,
        errors=False,
        paper=_AGREEMENT,
    ),
    _Spec(
        "Log-odds lost by masking words for the class (tables 2 and 9)",
        ("delta_log_odds_positive",),
        True,
        paper=_LOG_ODDS,
    ),
    _Spec("Log-odds lost by masking words against the class (table 8)", ("delta_log_odds_negative",), False),
    _Spec(
        "Stability among texts of similar meaning, IoU in % (table 3)",
        ("stability_semantic",),
        True,
        100,
        1,
        paper=_STABILITY,
    ),
    _Spec("Stability among texts of similar wording, IoU in % (tables 5 and 7)", ("stability_lexical",), True, 100, 1),
    _Spec("The same for meaning, without stop words (table 5)", ("stability_semantic_content",), True, 100, 1),
    _Spec("The same for wording, without stop words (table 5)", ("stability_lexical_content",), True, 100, 1),
    _Spec(
        "Precision / recall / F1 against marked words, % (table 4)",
        ("precision", "recall", "f1"),
        True,
        100,
        0,
        errors=False,
    ),
)


def adapters(params: Params) -> dict[str, str | None]:
    """Task -> adapter of its source."""
    return {task: source.adapter for task, source in params.sources.items()}


def students_introduction(percent: float, seeds: int) -> Markdown:
    """What the tables compare. percent: share of words chosen by rank; seeds: number of students per teacher."""
    return Markdown(
        "Students (L2E) learned a teacher's explanations (A) of the training texts. Both explain the same test texts. "
        f"Where students learned to rank, both sides choose the top {percent:g} % of the words. Where students learned "
        "levels, both sides choose their best words of positive (negative) level, as many as the side with fewer of "
        "them has; stability compares all levels of each side. L2E's figures are means over "
        f"{seeds} students with different seeds. Both: the classifier gives the two explanations the same class. "
        "The better of A and L2E is bold where they differ by Wilcoxon's test over the texts, after Holm's correction "
        "over the table."
    )


def student_tables(
    documents: Sequence[Document], significance: float, by_task: Mapping[str, str | None] | None = None
) -> list[Block]:
    """The paper's tables, `student_times` apart; a table is left out where no document has its metric.

    The better figure of teacher (A) and student (L2E) is bold where they differ by Wilcoxon's test over the texts,
    after Holm's correction over all cells of the table (L2E, footnote 6). Where a task's data are the paper's, the
    paper's figure follows ours in brackets.

    Args:
        by_task: task -> adapter of its source, as of `adapters`.
    """
    tasks = list(dict.fromkeys(d["task"] for d in documents))
    teachers = list(dict.fromkeys(d["teacher"] for d in documents))
    columns = [(f, task) for f in dict.fromkeys(f for d in documents for f in d["formulations"]) for task in tasks]
    tables = []
    for spec in SPECS:
        found = {
            metric: {
                (formulation, d["task"], d["teacher"]): figures[metric]
                for d in documents
                for formulation, figures in d["formulations"].items()
                if figures[metric]["student"] is not None
            }
            for metric in spec.metrics
        }
        if any(found.values()):
            tables.append(_table(spec, found, columns, teachers, significance, by_task or {}))
    return tables


def _table(
    spec: _Spec,
    found: Mapping[str, Cells],
    columns: Sequence[tuple[str, str]],
    teachers: Sequence[str],
    significance: float,
    adapters: Mapping[str, str | None],
) -> Block:
    tested = found[spec.metrics[-1]]
    columns = [c for c in columns if any(key[:2] == c for key in tested)]
    certain = _certain(tested, significance)

    def row(name: str, label: Markdown, cell: Callable[[tuple[str, str]], Markdown]) -> list[Markdown]:
        return [escape_markdown(name), label, *(cell(column) for column in columns)]

    def of_side(side: str, teacher: str) -> Callable[[tuple[str, str]], Markdown]:
        def cell(column: tuple[str, str]) -> Markdown:
            key = (*column, teacher)
            if key not in tested or tested[key].get(side) is None:
                return Markdown("–")
            text = " / ".join(_number(found[metric][key], side, spec) for metric in spec.metrics)
            if key in certain:
                ahead = tested[key]["student"] > tested[key]["teacher"]
                if side == ("student" if ahead is spec.larger_is_better else "teacher"):
                    text = f"**{text}**"
            published = _published(spec, column[0], adapters.get(column[1]), teacher, side)
            return Markdown(text if published is None else f"{text} ({published:g})")

        return cell

    def by_chance(column: tuple[str, str]) -> Markdown:
        values = []
        for metric in spec.metrics:
            of_cells = [
                f["random"] for key, f in found[metric].items() if key[:2] == column and f["random"] is not None
            ]
            values.append(f"{spec.scale * sum(of_cells) / len(of_cells):.{spec.digits}f}" if of_cells else "–")
        return Markdown(" / ".join(values))

    rows = [row("random", Markdown(""), by_chance)]
    for teacher in teachers:
        rows.append(row(teacher, Markdown("A"), of_side("teacher", teacher)))
        rows.append(row("", Markdown("L2E"), of_side("student", teacher)))
        if spec.both:
            rows.append(row("", Markdown("both"), of_side("both", teacher)))
    worse = "" if spec.larger_is_better else " Lower is better."
    errors = " ± standard error over texts." if spec.errors else ""
    published = any((formulation, adapters.get(task)) in spec.paper for formulation, task in columns)
    papers = " In brackets: the paper's figure." if published else ""
    header = [Markdown("Teacher"), Markdown(""), *(escape_markdown(f"{f}, {task}") for f, task in columns)]
    return Block(spec.title, Markdown((errors + worse + papers).strip()), header, rows, left=2)


def _published(spec: _Spec, formulation: str, adapter: str | None, teacher: str, side: str) -> float | None:
    """The paper's figure for a cell."""
    figures = spec.paper.get((formulation, adapter or ""))
    if figures is None or teacher not in PAPER_TEACHERS:
        return None
    sides = ["teacher", "student", "both"] if spec.both else ["teacher", "student"]
    return figures[len(sides) * PAPER_TEACHERS.index(teacher) + sides.index(side)]


def _number(figures: Mapping[str, Any], side: str, spec: _Spec) -> str:
    value, error = figures[side], figures.get(f"{side}_error")
    text = f"{spec.scale * value:.{spec.digits}f}"
    return f"{text} ± {spec.scale * error:.{spec.digits}f}" if spec.errors and error is not None else text


def _certain(cells: Cells, significance: float) -> set[tuple[str, str, str]]:
    """Cells where student and teacher differ, after Holm's correction over all of them."""
    tested = [key for key, figures in cells.items() if figures["p_value"] is not None]
    if not tested:
        return set()
    adjusted = holm([cells[key]["p_value"] for key in tested])
    return {key for key, p_value in zip(tested, adjusted, strict=True) if p_value <= significance}


def student_times(documents: Sequence[Document]) -> list[Block]:
    """How long teacher and student take for a text, and the training of a student; none without a comparison that ran
    on this machine."""
    documents = [document for document in documents if "seconds" in document]
    if not documents:
        return []
    tasks = dict.fromkeys(d["task"] for d in documents)
    teachers = dict.fromkeys(d["teacher"] for d in documents)
    by_cell = {(d["task"], d["teacher"]): d for d in documents}
    rows = []
    for teacher in teachers:
        for task in tasks:
            if (task, teacher) not in by_cell:
                continue
            document = by_cell[task, teacher]
            s = document["seconds"]
            rows.append(
                [
                    escape_markdown(teacher),
                    escape_markdown(task),
                    *(
                        Markdown(f"{1000 * s[side]:.2f}")
                        for side in ("teacher", "classifier", "student_classified", "student")
                    ),
                    Markdown(f"{s['teacher'] / s['student']:,.1f}×"),
                    Markdown(f"{s['teacher'] / s['student_classified']:,.1f}×"),
                    Markdown(f"{fmean(document['training']):.0f}"),
                ]
            )
    header = [
        "Teacher",
        "Task",
        "Teacher, ms per text",
        "Classifier",
        "L2E with classifier",
        "L2E, class given",
        "Faster, class given",
        "Faster, with classifier",
        "Training, s",
    ]
    return [Block("Time (L2E figures 3 to 6)", headings=header, rows=rows, left=2)]
