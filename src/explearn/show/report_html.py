"""reports/report.html: the whole report in one file that needs no other, with sorting, filters and word heatmaps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from explearn.core.display import words_html
from explearn.core.heat import FAINT, UNREAD, css, shows_signs, strengths
from explearn.core.storage import write_text
from explearn.methods.consensus.report import WEIGHTS_INTRODUCTION, weights_blocks, weights_sentences
from explearn.methods.registry import leaderboard_order
from explearn.show import task_sections as sections
from explearn.show.caveats import chance_warning
from explearn.show.columns import COST_NOTE, DISTRIBUTION, TABLES, Row, Table, leaderboard, used_marks
from explearn.show.glance import Glance, glance
from explearn.show.glossary import INTRODUCTION, glossary
from explearn.show.html_page import asset, data_uri, page_environment, source_hash
from explearn.show.markdown import Markdown
from explearn.show.missing import has_no_marks
from explearn.show.task_report import ExampleReport, TaskReport
from explearn.show.verdict import (
    LEADER_EXPLANATION,
    LEADER_HEADINGS,
    QUESTION_COLUMNS,
    TIME,
    TIME_EXPLANATION,
    counted_tasks,
    counting_sentence,
    headline_sentences,
    leader_rows,
    leaders,
    overview,
    time_sentences,
)
from explearn.show.versions import versions
from explearn_study.params import Params
from explearn_study.report.curves import CURVES_INTRODUCTION, curve_block, curve_sentences, with_curve
from explearn_study.report.heading import heading
from explearn_study.report.l2e_students import (
    Document,
    adapters,
    student_tables,
    student_times,
    students_introduction,
)
from explearn_study.report.papers import SideBySide, left_out, side_by_side
from explearn_study.report.transfer_tables import TRANSFER_INTRODUCTION, transfer_blocks

FULL_SCALE = 99
"""In the page, scores are whole numbers; those of each text and method are scaled so that the largest is this."""

FIGURES = (
    (
        "machine/pareto.svg",
        "What agreement costs",
        "Agreement with people and with the model against time, one point per method",
    ),
    (
        "figures/f1.svg",
        "F1 of each method, by its own rule, on each task, with its interval",
        "Points with intervals, one panel per task",
    ),
    (
        "figures/auroc.svg",
        "AUROC of each method on each task, with its interval",
        "Points with intervals, one panel per task",
    ),
)
"""File under reports/, title and description."""
OF_MARKS = ("figures/f1.svg", "figures/auroc.svg")
"""Those that are empty where nobody marked a word."""
COEFFICIENTS_FIGURE = (
    "figures/coefficients.svg",
    "What explainers with a classifier of their own learned",
    "Heat maps of heads and layers",
)
"""The same, where there are such explainers."""


def write_html(
    path: Path,
    params: Params,
    tasks: Sequence[TaskReport],
    students: Sequence[Document] = (),
    transfers: Sequence[Document] = (),
) -> None:
    """Write the page with the SVG figures that lie beside it, in figures/ and machine/; it is whole or not there."""
    write_text(path, render_html(params, tasks, path.parent, students, transfers))


def render_html(
    params: Params,
    tasks: Sequence[TaskReport],
    folder: Path | None = None,
    students: Sequence[Document] = (),
    transfers: Sequence[Document] = (),
) -> str:
    """The page. Everything from data is escaped, and no script but the report's own can run in it.

    Args:
        folder: where figures/ and machine/ lie; without it the page has no figures.
        students, transfers: what the stages distil and transfer wrote.
    """
    environment = page_environment()
    counted = counted_tasks(params, tasks)
    leading = leaders(counted, params.evaluate.significance)
    first = glance(params, tasks, leading)
    script = Markup(asset("page.js") + asset("report.js"))
    methods = leaderboard_order(list(dict.fromkeys(m for task in tasks for m in task.methods)))
    unmarked = all(has_no_marks(task) for task in tasks)
    shown = [figure for figure in FIGURES if not (unmarked and figure[0] in OF_MARKS)]
    shown += [COEFFICIENTS_FIGURE] if any(task.own_models for task in tasks) else []
    curves = curve_block(tasks) if with_curve(tasks) else None
    of_tasks = [block for task in tasks for block in sections.blocks(task)]
    blocks = [*([curves] if curves else []), *weights_blocks(tasks), *transfer_blocks(transfers), *of_tasks]
    names = {block.figure for block in blocks if block.figure}
    papers = side_by_side(params, tasks)
    title, subtitle = heading(params, tasks)
    return environment.get_template("report.html.j2").render(
        params=params,
        title=title,
        subtitle=subtitle,
        css=Markup(asset("report.css") + css(".words") + css("td")),
        script=script,
        script_hash=source_hash(script),
        data=htmlsafe_json_dumps(heatmaps(methods, tasks), separators=(",", ":")),
        method_names=methods,
        transfers=transfer_blocks(transfers),
        transfer_introduction=TRANSFER_INTRODUCTION,
        curves=curves,
        weights_introduction=WEIGHTS_INTRODUCTION,
        weights_sentences=weights_sentences(params, tasks),
        weights=weights_blocks(tasks),
        curves_introduction=CURVES_INTRODUCTION,
        curve_sentences=curve_sentences(tasks),
        marks=used_marks(methods),
        leader_headings=LEADER_HEADINGS,
        leader_explanation=Markdown(f"{LEADER_EXPLANATION} {TIME_EXPLANATION}"),
        leaders=leader_rows(leading),
        glance=first,
        glance_figure=data_uri(folder / "machine/glance.svg") if folder else "",
        glance_rows=_glance_rows(first),
        counting=counting_sentence(params, tasks),
        headline=[*headline_sentences(params, counted), *time_sentences(params, counted)],
        overview=overview(counted, (*QUESTION_COLUMNS, TIME)),
        figures=[(title, alt, data_uri(folder / file)) for file, title, alt in shown] if folder else [],
        drawn={name: data_uri(folder / "figures" / name) for name in sorted(names)} if folder else {},
        papers=[_side(side) for side in papers],
        papers_left_out=left_out(papers),
        students=[
            *student_tables(students, params.evaluate.significance, adapters(params)),
            *student_times(students),
        ],
        students_introduction=students_introduction(params.distil.percent, params.distil.seeds),
        tasks=[_task(task, params) for task in tasks],
        introduction=INTRODUCTION,
        cost_note=COST_NOTE,
        glossary=glossary(params.evaluate),
        methods=[[name, family, *rest] for family, name, *rest in sections.method_rows(tasks)],
        better=sections.BETTER,
        worse=sections.WORSE,
        confidence=f"{100 * params.evaluate.confidence:g}",
        parameters=yaml.safe_dump(params.model_dump(mode="json"), sort_keys=False, allow_unicode=True),
        versions=versions(),
    )


def _side(side: SideBySide) -> dict[str, Any]:
    """A paper's table and ours as the template takes them; the best of each column is bold."""
    cells = [[method, *(Markdown(f"**{text}**") if best else text for text, best in row)] for method, row in side.rows]
    return {"table": side.table, "note": side.note, "headings": side.headings, "cells": cells}


def _glance_rows(first: Glance) -> list[tuple[str, str, Markup]]:
    """The rows of the first screen's text: method, what it is there for, and the words in colour."""
    if first.example is None:
        return []
    found, chosen = first.example.attributions, first.example.selected
    return [
        (shown.method, shown.role, Markup(words_html(found[shown.method], chosen[shown.method].tolist())))
        for shown in (*first.leaders, *first.fastest)
        if shown.method in found
    ]


def _task(task: TaskReport, params: Params) -> dict[str, Any]:
    return {
        "name": task.task,
        "warning": chance_warning(task.classifier, params.report.chance_margin),
        "facts": sections.facts(task),
        "pairs": sections.annotator_pairs(task),
        "classifier": sections.classifier_rows(task),
        "counted": sections.counted(task),
        "boards": _boards(task),
        "blocks": sections.blocks(task),
        "matrices": sections.matrices(task, params.evaluate.significance),
        "agreement": sections.agreement_rows(task),
        "sanity": sections.sanity_rows(task),
        "sanity_sentence": sections.sanity_sentence(task),
        "distribution": (DISTRIBUTION, leaderboard(task.methods, DISTRIBUTION.columns)),
    }


def _boards(task: TaskReport) -> list[tuple[Table, list[Row]]]:
    """The leaderboards for which anything was measured."""
    found = [(board, leaderboard(task.methods, board.columns, task.comparisons)) for board in TABLES]
    return [(board, rows) for board, rows in found if any(cell.value is not None for row in rows for cell in row.cells)]


def heatmaps(methods: Sequence[str], tasks: Sequence[TaskReport]) -> dict[str, Any]:
    """What the page's script draws: the methods' names, and the texts of each task (see `_text`)."""
    return {
        "unread": UNREAD,
        "full": FULL_SCALE,
        "faint": FAINT,
        "methods": list(methods),
        "tasks": [
            {"name": task.task, "texts": [_text(methods, example) for example in task.heatmaps]} for task in tasks
        ],
    }


def _text(methods: Sequence[str], report: ExampleReport) -> dict[str, Any]:
    """A text for the page's script.

    Its label, whether the answer is right (or None), its words, the index of the second segment's first word (or -1),
    and the marked words ("0110"); and for each method its scaled scores, whether these have signs, the words it chose,
    and the class it explains where that is not `predicted`. None stands where a method does not explain the text.
    """
    first = report.task_attribution
    # Whether a question is answered correctly is not known here: the answer's span is not among the classes.
    known = report.example.label and not report.example.answer
    return {
        "id": report.example.id,
        "label": report.true_label,
        "right": None if first is None or not known else first.predicted == report.example.label,
        "predicted": "–" if first is None else first.predicted,
        "probability": "–" if first is None else f"{first.probability:.2f}",
        "kinds": ", ".join(report.kinds) or "nobody",
        "words": list(report.example.all_words),
        "pair": len(report.example.words) if report.example.pair else -1,
        "marked": _bits(report.gold),
        "scores": [_scaled(report.attributions[m].scores) if m in report.attributions else None for m in methods],
        "signs": [
            shows_signs(report.attributions[m].signed, report.attributions[m].scores)
            if m in report.attributions
            else None
            for m in methods
        ],
        "chosen": [_bits(report.selected[m]) if m in report.selected else None for m in methods],
        "answers": [report.other_answer(m) if m in report.attributions else None for m in methods],
    }


def _bits(mask: Any) -> str:
    return "".join("1" if chosen else "0" for chosen in np.asarray(mask, dtype=np.bool_))


def _scaled(scores: Any) -> list[int | None]:
    """Scores for the page's script; None for a word that was not read."""
    return [None if np.isnan(share) else round(FULL_SCALE * share) for share in strengths(scores).tolist()]
