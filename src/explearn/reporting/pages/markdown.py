"""reports/report.md: what was measured, how the methods compare, and example texts, for a reader new to the project."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from explearn.core.storage import write_text
from explearn.pipeline.params import Params
from explearn.reporting.content import task_sections as sections
from explearn.reporting.content.aml_training import write_study_plots
from explearn.reporting.content.blocks import Panel
from explearn.reporting.content.caveats import caveats, chance_warning
from explearn.reporting.content.columns import (
    COST_NOTE,
    DISTRIBUTION,
    TABLES,
    Column,
    Row,
    leaderboard,
    marked,
    used_marks,
)
from explearn.reporting.content.glossary import INTRODUCTION, glossary
from explearn.reporting.content.l2e_students import Document, student_tables, students_introduction
from explearn.reporting.content.markdown import Markdown, emphasise, escape_markdown, table
from explearn.reporting.content.papers import SideBySide, left_out, side_by_side
from explearn.reporting.content.task_report import ExampleReport, TaskReport, leaderboard_order
from explearn.reporting.content.transfer import TRANSFER_INTRODUCTION, transfer_panels
from explearn.reporting.content.verdict import (
    LEADER_EXPLANATION,
    LEADER_HEADINGS,
    counted_tasks,
    counting_sentence,
    headline_sentences,
    leader_rows,
    leaders,
    overview,
)
from explearn.reporting.figures.bars import AUROC_PLOT, F1_PLOT, write_plot
from explearn.reporting.figures.heatmaps import write_coefficients
from explearn.reporting.figures.pareto import write_pareto
from explearn.reporting.pages.html import write_html

WHOLE_TEXT_WORDS = 60
"""Longest text, in words, that every method's row repeats whole; of longer ones only the chosen words are shown."""


def write_report(
    folder: Path,
    params: Params,
    tasks: Sequence[TaskReport],
    students: Sequence[Document] = (),
    transfers: Sequence[Document] = (),
) -> None:
    """Write report.md, report.html, and under figures/ f1.svg, auroc.svg, pareto.svg, a plot of every search and, for
    explainers with a classifier of their own, coefficients.svg, and transfer-NAME.svg for those tried on other tasks,
    into `folder`. students, transfers: what the stages distil and transfer wrote.

    Every file is whole or not there, and the same input gives the same bytes under the same package versions.
    Raises UnknownNameError for a method that is not registered.
    """
    for spec in (F1_PLOT, AUROC_PLOT):
        write_plot(folder / "figures" / f"{spec.name}.svg", spec, tasks, params.evaluate.confidence)
    write_pareto(folder / "figures" / "pareto.svg", counted_tasks(params, tasks))
    write_study_plots(folder / "figures", tasks)
    if any(task.own_models for task in tasks):
        write_coefficients(folder / "figures" / "coefficients.svg", tasks)
    transfer_panels(transfers, folder / "figures")
    write_html(folder / "report.html", params, tasks, folder / "figures", students, transfers)
    write_text(folder / "report.md", render_report(params, tasks, students, transfers))


def render_report(
    params: Params, tasks: Sequence[TaskReport], students: Sequence[Document] = (), transfers: Sequence[Document] = ()
) -> str:
    """The report as Markdown; figures are linked as figures/NAME.svg. students, transfers: as for `write_report`."""
    environment = Environment(
        loader=PackageLoader("explearn.reporting.pages"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        # Names and texts come from data: what was not made as Markdown on purpose is escaped.
        finalize=lambda value: value if isinstance(value, Markdown) else escape_markdown(str(value)),
    )
    papers = side_by_side(params, tasks)
    counted = counted_tasks(params, tasks)
    text = environment.get_template("report.md.j2").render(
        params=params,
        table=table,
        transfers=transfer_panels(transfers),
        transfer_introduction=TRANSFER_INTRODUCTION,
        has_own_models=any(task.own_models for task in tasks),
        marks=used_marks(method for task in tasks for method in task.methods),
        leader_headings=LEADER_HEADINGS,
        leader_explanation=LEADER_EXPLANATION,
        leaders=leader_rows(leaders(counted, params.evaluate.significance)),
        counting=counting_sentence(params, tasks),
        headline=headline_sentences(params, counted),
        caveats=caveats(params, tasks),
        overview=_board(*overview(counted), intervals=False),
        papers=[(found, _papers_table(found)) for found in papers],
        papers_left_out=left_out(papers),
        introduction=INTRODUCTION,
        cost_note=COST_NOTE,
        glossary=glossary(params.evaluate),
        methods=sections.method_rows(tasks),
        tasks=[_task(task, params) for task in tasks],
        level=Markdown(f"{params.evaluate.significance:g}"),
        whole_text_words=WHOLE_TEXT_WORDS,
        students=student_tables(
            students, params.evaluate.significance, {task: source.adapter for task, source in params.sources.items()}
        ),
        students_introduction=students_introduction(params.distil.percent, params.distil.seeds),
        parameters=fenced("yaml", yaml.safe_dump(params.model_dump(mode="json"), sort_keys=False, allow_unicode=True)),
        versions=sections.versions(),
    )
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def fenced(language: str, text: str) -> Markdown:
    """A code block that no run of backticks in the text can end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markdown(f"{fence}{language}\n{text.rstrip()}\n{fence}")


@dataclass(frozen=True, slots=True)
class _Text:
    """An example text: rows of who chose, how many of the chosen words people marked too, and the words."""

    id: str
    label: str
    predicted: str
    probability: Markdown
    rows: list[list[str]]
    whole: bool


@dataclass(frozen=True, slots=True)
class _Task:
    """A task's part; what is Markdown is a whole table."""

    name: str
    warning: Markdown | None
    facts: list[tuple[str, Markdown]]
    pairs: list[list[str]]
    classifier: list[list[str]]
    counted: Markdown | None
    boards: list[tuple[str, Markdown]]
    panels: list[Panel]
    matrices: list[tuple[str, Markdown]]
    agreement: Markdown | None
    sanity: Markdown | None
    sanity_sentence: Markdown
    distribution: Markdown
    texts: list[_Text]


def _task(task: TaskReport, params: Params) -> _Task:
    headings, checks = sections.sanity_rows(task)
    alike = sections.agreement_rows(task)
    return _Task(
        name=task.task,
        warning=chance_warning(task.classifier, params.report.chance_margin),
        facts=sections.facts(task),
        pairs=sections.annotator_pairs(task),
        classifier=sections.classifier_rows(task),
        counted=sections.counted(task),
        boards=[
            (board.title, _board(board.columns, leaderboard(task.methods, board.columns, task.comparisons)))
            for board in TABLES
        ],
        panels=sections.panels(task),
        matrices=[
            (column.title, _matrix(rows)) for column, rows in sections.matrices(task, params.evaluate.significance)
        ],
        agreement=_matrix(alike) if alike else None,
        sanity=table(headings, [[marked(method), *row] for method, *row in checks]) if checks else None,
        sanity_sentence=sections.sanity_sentence(task),
        distribution=_board(DISTRIBUTION.columns, leaderboard(task.methods, DISTRIBUTION.columns)),
        texts=[_text(example) for example in task.examples],
    )


def _board(columns: Sequence[Column], rows: Sequence[Row], intervals: bool = True) -> Markdown:
    """A leaderboard; F1 comes with its interval."""
    return table(
        ["Family", "Method", *(Markdown(column.title) for column in columns)],
        [
            [
                row.family,
                marked(row.method),
                *(
                    cell.markdown(intervals and column.metric == "f1")
                    for column, cell in zip(columns, row.cells, strict=True)
                ),
            ]
            for row in rows
        ],
        left=2,
    )


def _matrix(rows: Sequence[tuple[str, Sequence[str]]]) -> Markdown:
    """Methods against methods, those of the columns by their number."""
    return table(
        ["", "Method", *(str(number) for number in range(1, len(rows) + 1))],
        [[str(number), marked(method), *map(Markdown, cells)] for number, (method, cells) in enumerate(rows, 1)],
        left=2,
    )


def _papers_table(found: SideBySide) -> Markdown:
    return table(
        ["Method", *found.headings],
        [
            [method, *(Markdown(f"**{text}**" if best else text) for text, best in cells)]
            for method, cells in found.rows
        ],
    )


def _text(report: ExampleReport) -> _Text:
    words = report.example.all_words
    whole = len(words) <= WHOLE_TEXT_WORDS
    kinds = ", ".join(report.kinds) or "nobody"
    rows: list[list[str]] = [
        [
            Markdown(f"*Marked* ({escape_markdown(kinds)})"),
            f"{int(report.gold.sum())} marked",
            emphasise(words, report.gold.tolist(), whole),
        ]
    ]
    for method in leaderboard_order(list(report.selected)):
        selected = np.asarray(report.selected[method], dtype=np.bool_)
        hits = int((selected & report.gold).sum())
        answer = report.other_answer(method)
        name = method if answer is None else f"{method} (explains “{answer}”)"
        rows.append([name, f"{hits} of {int(selected.sum())}", emphasise(words, selected.tolist(), whole)])
    first = report.task_attribution
    return _Text(
        id=report.example.id,
        label=report.true_label,
        predicted="–" if first is None else first.predicted,
        probability=Markdown("") if first is None else Markdown(f" (p = {first.probability:.2f})"),
        rows=rows,
        whole=whole,
    )
