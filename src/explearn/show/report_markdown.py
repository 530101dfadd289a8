"""reports/report.md: what was measured, how the methods compare, and example texts, for a reader new to the project.

It holds nothing that depends on the machine of the run; that is in machine/costs.md (`costs_markdown`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import yaml

from explearn.methods.consensus.report import WEIGHTS_INTRODUCTION, weights_blocks, weights_sentences
from explearn.methods.registry import leaderboard_order
from explearn.show import task_sections as sections
from explearn.show.blocks import Block
from explearn.show.caveats import chance_warning
from explearn.show.columns import COST_NOTE, DISTRIBUTION, TABLES, leaderboard, marked, used_marks
from explearn.show.glance import Glance, glance
from explearn.show.glossary import INTRODUCTION, glossary
from explearn.show.machine_figures import MACHINE_FIGURES, fixed_columns
from explearn.show.markdown import Markdown, emphasise, escape_markdown, table
from explearn.show.markdown_page import board, markdown_environment, papers_table, tidy
from explearn.show.task_report import ExampleReport, TaskReport
from explearn.show.verdict import (
    LEADER_EXPLANATION,
    LEADER_HEADINGS,
    QUESTION_COLUMNS,
    counted_tasks,
    counting_sentence,
    headline_sentences,
    leader_rows,
    leaders,
    overview,
    without_times,
)
from explearn.show.versions import versions
from explearn_study.params import Params
from explearn_study.report.curves import CURVES_INTRODUCTION, curve_block, curve_sentences, with_curve
from explearn_study.report.l2e_students import Document, adapters, student_tables, students_introduction
from explearn_study.report.papers import left_out, side_by_side
from explearn_study.report.transfer_tables import TRANSFER_INTRODUCTION, transfer_blocks

WHOLE_TEXT_WORDS = 60
"""Longest text, in words, that every method's row repeats whole. Of longer ones only the chosen words are shown."""


def render_report(
    params: Params, tasks: Sequence[TaskReport], students: Sequence[Document] = (), transfers: Sequence[Document] = ()
) -> str:
    """The report as Markdown; figures are linked as figures/NAME.svg.

    Args:
        students, transfers: what the stages distil and transfer wrote.
    """
    papers = [side for side in side_by_side(params, tasks) if side.table.column.metric not in MACHINE_FIGURES]
    counted = counted_tasks(params, tasks)
    leading = leaders(counted, params.evaluate.significance)
    first = glance(params, tasks, leading)
    text = (
        markdown_environment()
        .get_template("report.md.j2")
        .render(
            params=params,
            table=table,
            transfers=transfer_blocks(transfers),
            transfer_introduction=TRANSFER_INTRODUCTION,
            curves_introduction=CURVES_INTRODUCTION,
            curve_sentences=curve_sentences(tasks),
            curves=curve_block(tasks) if with_curve(tasks) else None,
            weights_introduction=WEIGHTS_INTRODUCTION,
            weights_sentences=weights_sentences(params, tasks),
            weights=weights_blocks(tasks),
            has_own_models=any(task.own_models for task in tasks),
            marks=used_marks(method for task in tasks for method in task.methods),
            leader_headings=without_times(LEADER_HEADINGS),
            leader_explanation=LEADER_EXPLANATION,
            leaders=[without_times(row) for row in leader_rows(leading)],
            glance=first,
            glance_rows=_glance_rows(first),
            counting=counting_sentence(params, tasks),
            headline=headline_sentences(params, counted),
            overview=board(*overview(counted, QUESTION_COLUMNS), intervals=False),
            papers=[(side, papers_table(side)) for side in papers],
            papers_left_out=left_out(papers),
            introduction=INTRODUCTION,
            cost_note=COST_NOTE,
            glossary=glossary(params.evaluate),
            methods=sections.method_rows(tasks),
            tasks=[_task(task, params) for task in tasks],
            level=Markdown(f"{params.evaluate.significance:g}"),
            whole_text_words=WHOLE_TEXT_WORDS,
            students=student_tables(students, params.evaluate.significance, adapters(params)),
            students_introduction=students_introduction(params.distil.percent, params.distil.seeds),
            parameters=fenced(
                "yaml", yaml.safe_dump(params.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
            ),
            versions=versions(),
        )
    )
    return tidy(text)


def fenced(language: str, text: str) -> Markdown:
    """A code block that no run of backticks in the text can end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markdown(f"{fence}{language}\n{text.rstrip()}\n{fence}")


@dataclass(frozen=True, slots=True)
class _Text:
    """An example text: rows of who chose the words, how many of these are marked, and the words."""

    id: str
    label: str
    predicted: str
    probability: Markdown
    rows: list[list[str]]
    whole: bool


@dataclass(frozen=True, slots=True)
class _Task:
    """The section on one task; what is Markdown here is a whole table."""

    name: str
    warning: Markdown | None
    facts: list[tuple[str, Markdown]]
    pairs: list[list[str]]
    classifier: list[list[str]]
    counted: Markdown | None
    boards: list[tuple[str, Markdown]]
    blocks: list[Block]
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
            (shown.title, board(columns, leaderboard(task.methods, columns, task.comparisons)))
            for shown in TABLES
            for columns in [fixed_columns(shown.columns)]
        ],
        blocks=sections.blocks(task),
        matrices=[
            (column.title, _matrix(rows)) for column, rows in sections.matrices(task, params.evaluate.significance)
        ],
        agreement=_matrix(alike) if alike else None,
        sanity=table(headings, [[marked(method), *row] for method, *row in checks]) if checks else None,
        sanity_sentence=sections.sanity_sentence(task),
        distribution=board(DISTRIBUTION.columns, leaderboard(task.methods, DISTRIBUTION.columns)),
        texts=[_text(example) for example in task.examples],
    )


def _glance_rows(first: Glance) -> list[list[str]]:
    """The rows of the first page's text: who chooses words, and the text with as many as people usually mark in bold.

    Which method is the fastest depends on the machine, so this page leaves it out.
    """
    report = first.example
    if report is None:
        return []
    words = report.example.all_words
    rows: list[list[str]] = []
    if report.kinds:
        kinds = escape_markdown(", ".join(report.kinds))
        rows.append([Markdown(f"*Marked* ({kinds})"), emphasise(words, report.gold.tolist())])
    for shown in first.leaders:
        if shown.method in report.selected:
            selected = np.asarray(report.selected[shown.method], dtype=np.bool_).tolist()
            rows.append([shown.method, emphasise(words, selected)])
    return rows


def _matrix(rows: Sequence[tuple[str, Sequence[str]]]) -> Markdown:
    """Methods against methods; the columns are headed by the rows' numbers."""
    return table(
        ["", "Method", *(str(number) for number in range(1, len(rows) + 1))],
        [[str(number), marked(method), *map(Markdown, cells)] for number, (method, cells) in enumerate(rows, 1)],
        left=2,
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
