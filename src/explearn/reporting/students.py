"""Tables of students against their teachers, laid out like tables 1 to 5 of L2E's paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from statsmodels.stats.multitest import multipletests

from explearn.reporting.markdown import Markdown, escape_markdown
from explearn.reporting.panels import Panel

Document = Mapping[str, Any]
"""What `explearn.distillation.compare_with_students` gives for one task and teacher."""
Cells = Mapping[tuple[str, str, str], Mapping[str, Any]]
"""(formulation, task, teacher) -> figures of one metric."""


@dataclass(frozen=True, slots=True)
class _Spec:
    """A table of one or more metrics in a cell.

    metrics: in a cell, split by slashes; the last one's test decides what is bold. scale: factor of the figures.
    """

    title: str
    metrics: tuple[str, ...]
    larger_is_better: bool
    scale: float = 1.0
    digits: int = 2
    both: bool = False
    errors: bool = True


SPECS = (
    _Spec("Agreement of predictions, % (L2E table 1)", ("agreement",), True, 100, 0, both=True, errors=False),
    _Spec("Log-odds lost by masking words for the class (tables 2 and 9)", ("delta_log_odds_positive",), True),
    _Spec("Log-odds lost by masking words against the class (table 8)", ("delta_log_odds_negative",), False),
    _Spec("Stability among texts near in meaning, IoU in % (table 3)", ("stability_semantic",), True, 100, 1),
    _Spec("Stability among texts near in wording, IoU in % (tables 5 and 7)", ("stability_lexical",), True, 100, 1),
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


def students_introduction(percent: float, seeds: int) -> Markdown:
    """What the tables compare. percent: of the words that are chosen by rank; seeds: students a teacher has."""
    return Markdown(
        "Students (L2E) learned a teacher's explanations (A) of training texts, and both explain the same test texts, "
        f"with as many words each: the top {percent:g} % of the words for students that learned to rank, the words "
        "that both give a positive (negative) level for those that learned levels. L2E's figures are means over "
        f"{seeds} students of different seeds. Both: the classifier gives one class to the two explanations. Of A and "
        "L2E the better is bold where they differ by Wilcoxon's test over the texts, after Holm's correction over the "
        "table."
    )


def student_tables(documents: Sequence[Document], significance: float) -> list[Panel]:
    """The tables of the paper, and one of times; none where there is no document, or none has the table's metric.

    Of teacher (A) and student (L2E) the better figure is bold where they differ by Wilcoxon's test over the texts,
    after Holm's correction over all cells of the table (L2E footnote 6).
    """
    if not documents:
        return []
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
            tables.append(_table(spec, found, columns, teachers, significance))
    return [*tables, _times(documents, tasks, teachers)]


def _table(
    spec: _Spec,
    found: Mapping[str, Cells],
    columns: Sequence[tuple[str, str]],
    teachers: Sequence[str],
    significance: float,
) -> Panel:
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
            parts = [_number(found[metric][key], side, spec) for metric in spec.metrics]
            text = " / ".join(parts)
            if key in certain:
                ahead = tested[key]["student"] > tested[key]["teacher"]
                if side == ("student" if ahead is spec.larger_is_better else "teacher"):
                    return Markdown(f"**{text}**")
            return Markdown(text)

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
    header = [Markdown("Teacher"), Markdown(""), *(escape_markdown(f"{f}, {task}") for f, task in columns)]
    return Panel(spec.title, Markdown((errors + worse).strip()), header, rows, left=2)


def _number(figures: Mapping[str, Any], side: str, spec: _Spec) -> str:
    value, error = figures[side], figures.get(f"{side}_error")
    text = f"{spec.scale * value:.{spec.digits}f}"
    return f"{text} ± {spec.scale * error:.{spec.digits}f}" if spec.errors and error is not None else text


def _certain(cells: Cells, significance: float) -> set[tuple[str, str, str]]:
    """Cells where student and teacher differ, after Holm's correction over all of them."""
    tested = [key for key, figures in cells.items() if figures["p_value"] is not None]
    if not tested:
        return set()
    rejected = multipletests([cells[key]["p_value"] for key in tested], alpha=significance, method="holm")[0]
    return {key for key, differs in zip(tested, rejected, strict=True) if differs}


def _times(documents: Sequence[Document], tasks: Sequence[str], teachers: Sequence[str]) -> Panel:
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
                    Markdown(f"{sum(x['seconds'] for x in document['students']) / len(document['students']):.0f}"),
                ]
            )
    header = [
        "Teacher",
        "Task",
        "Teacher, ms a text",
        "Classifier",
        "L2E with classifier",
        "L2E, class given",
        "Faster, class given",
        "Faster, with classifier",
        "Training, s",
    ]
    return Panel("Time (L2E figures 3 to 6)", headings=header, rows=rows, left=2)
