"""reports/report.html: the whole report in one file that needs no other, with sorting, filters and token heatmaps."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup, escape

from explearn.core.storage import write_text
from explearn.pipeline.params import Params
from explearn.reporting.content import task_sections as sections
from explearn.reporting.content.caveats import caveats, chance_warning
from explearn.reporting.content.columns import COST_NOTE, DISTRIBUTION, TABLES, leaderboard, mark, used_marks
from explearn.reporting.content.glossary import INTRODUCTION, glossary
from explearn.reporting.content.l2e_students import Document, student_tables, students_introduction
from explearn.reporting.content.markdown import Markdown, inline_html
from explearn.reporting.content.papers import left_out, side_by_side
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

FULL_SCALE = 99
"""Scores in the page are whole numbers, those of each text and method scaled to at most this; colours show no more."""

FIGURES = (
    ("pareto", "What agreement costs", "Agreement with people and with the model against time, one point a method"),
    (
        "f1",
        "F1 of each method, by its own rule, on each task, with its interval",
        "Points with intervals, a panel a task",
    ),
    ("auroc", "AUROC of each method on each task, with its interval", "Points with intervals, a panel a task"),
    ("coefficients", "What explainers with a classifier of their own learned", "Heat maps of heads and layers"),
)
"""Name of the file, title and description; the last is drawn for explainers with a classifier of their own."""


def write_html(
    path: Path,
    params: Params,
    tasks: Sequence[TaskReport],
    figures: Path,
    students: Sequence[Document] = (),
    transfers: Sequence[Document] = (),
) -> None:
    """Write the page, with the SVG figures in the folder `figures` inside it; whole or not there."""
    write_text(path, render_html(params, tasks, figures, students, transfers))


def render_html(
    params: Params,
    tasks: Sequence[TaskReport],
    figures: Path | None = None,
    students: Sequence[Document] = (),
    transfers: Sequence[Document] = (),
) -> str:
    """The page. Everything from data is escaped, and no script but the report's own can run in it.

    Args:
        figures: folder of the figures, which are left out without one.
        students, transfers: what the stages distil and transfer wrote.
    """
    environment = page_environment()
    counted = counted_tasks(params, tasks)
    script = Markup(asset("page.js") + asset("report.js"))
    methods = leaderboard_order(list(dict.fromkeys(m for task in tasks for m in task.methods)))
    absent = set() if any(task.own_models for task in tasks) else {"coefficients"}
    shown = [figure for figure in FIGURES if figure[0] not in absent]
    panels = [*transfer_panels(transfers), *(panel for task in tasks for panel in sections.panels(task))]
    names = {panel.figure for panel in panels if panel.figure}
    papers = side_by_side(params, tasks)
    return environment.get_template("report.html.j2").render(
        params=params,
        css=Markup(asset("report.css")),
        script=script,
        script_hash=source_hash(script),
        data=htmlsafe_json_dumps(heatmaps(methods, tasks), separators=(",", ":")),
        method_names=methods,
        transfers=transfer_panels(transfers),
        transfer_introduction=TRANSFER_INTRODUCTION,
        marks=used_marks(methods),
        leader_headings=LEADER_HEADINGS,
        leader_explanation=LEADER_EXPLANATION,
        leaders=leader_rows(leaders(counted, params.evaluate.significance)),
        counting=counting_sentence(params, tasks),
        headline=headline_sentences(params, counted),
        caveats=caveats(params, tasks),
        overview=overview(counted),
        figures=[(title, alt, data_uri(figures / f"{name}.svg")) for name, title, alt in shown] if figures else [],
        drawn={name: data_uri(figures / name) for name in sorted(names)} if figures else {},
        papers=[
            {
                "table": side.table,
                "note": side.note,
                "headings": side.headings,
                "cells": [
                    [method, *(Markdown(f"**{text}**") if best else text for text, best in cells)]
                    for method, cells in side.rows
                ],
            }
            for side in papers
        ],
        papers_left_out=left_out(papers),
        students=student_tables(
            students, params.evaluate.significance, {task: source.adapter for task, source in params.sources.items()}
        ),
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
        versions=sections.versions(),
    )


def page_environment() -> Environment:
    """Templates of pages: autoescape is on; `inline` puts in our own Markdown."""
    environment = Environment(
        loader=PackageLoader("explearn.reporting.pages"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["mark"] = lambda name: Markup(f"&nbsp;{found}") if (found := mark(name)) else ""
    # Long names may break behind an underscore.
    environment.filters["breakable"] = lambda name: Markup("_<wbr>").join(escape(name).split("_"))
    environment.filters["inline"] = lambda value: inline_html(value) if isinstance(value, Markdown) else value
    return environment


def asset(name: str) -> str:
    """A file beside the templates."""
    return resources.files("explearn.reporting.pages").joinpath("templates", name).read_text(encoding="utf-8")


def source_hash(script: str) -> str:
    """What a Content-Security-Policy names a script by, so that no other runs."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def data_uri(path: Path) -> str:
    """An SVG file as an address that holds it."""
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode()}"


def _task(task: TaskReport, params: Params) -> dict[str, Any]:
    return {
        "name": task.task,
        "warning": chance_warning(task.classifier, params.report.chance_margin),
        "facts": sections.facts(task),
        "pairs": sections.annotator_pairs(task),
        "classifier": sections.classifier_rows(task),
        "counted": sections.counted(task),
        "boards": [(board, leaderboard(task.methods, board.columns, task.comparisons)) for board in TABLES],
        "panels": sections.panels(task),
        "matrices": sections.matrices(task, params.evaluate.significance),
        "agreement": sections.agreement_rows(task),
        "sanity": sections.sanity_rows(task),
        "sanity_sentence": sections.sanity_sentence(task),
        "distribution": (DISTRIBUTION, leaderboard(task.methods, DISTRIBUTION.columns)),
    }


def heatmaps(methods: Sequence[str], tasks: Sequence[TaskReport]) -> dict[str, Any]:
    """What the page's script draws: names of the methods, and for each task its texts (see `_text`)."""
    return {
        "methods": list(methods),
        "tasks": [
            {"name": task.task, "texts": [_text(methods, example) for example in task.heatmaps]} for task in tasks
        ],
    }


def _text(methods: Sequence[str], report: ExampleReport) -> dict[str, Any]:
    """label, right (or None), words, pair (index of the second segment's first word, or -1), marked ("0110"), and for
    each method its scores, scaled, the words it chose, and the class it explains where that is not `predicted`; None
    where it does not explain the text."""
    first = report.task_attribution
    return {
        "id": report.example.id,
        "label": report.true_label,
        # Whether the answer to a question is the true one is not known here: its span has no name among the classes.
        "right": None if first is None or report.example.answer else first.predicted == report.example.label,
        "predicted": "–" if first is None else first.predicted,
        "probability": "–" if first is None else f"{first.probability:.2f}",
        "kinds": ", ".join(report.kinds) or "nobody",
        "words": list(report.example.all_words),
        "pair": len(report.example.words) if report.example.pair else -1,
        "marked": _bits(report.gold),
        "scores": [_scaled(report.attributions[m].scores) if m in report.attributions else None for m in methods],
        "chosen": [_bits(report.selected[m]) if m in report.selected else None for m in methods],
        "answers": [report.other_answer(m) if m in report.attributions else None for m in methods],
    }


def _bits(mask: Any) -> str:
    return "".join("1" if chosen else "0" for chosen in np.asarray(mask, dtype=np.bool_))


def _scaled(scores: Any) -> list[int]:
    array = np.asarray(scores, dtype=np.float64)
    largest = np.abs(array).max(initial=0.0)
    scaled: list[int] = np.rint(FULL_SCALE * array / (largest or 1.0)).astype(int).tolist()
    return scaled
