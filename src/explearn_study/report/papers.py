"""The papers' figures next to ours, if a run has their data; the papers' are in papers.yaml."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import Field

from explearn.core.documents import read_yaml
from explearn.core.validation import Section
from explearn.methods.results import TaskReport
from explearn.metrics.registry import CATALOGUE
from explearn.show.blocks import Block, Cell, Column, Heading, Paragraph, Table
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
    own_model: str = ""


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


def paper_blocks(params: Params, tasks: Sequence[TaskReport]) -> list[Block]:
    """Return those of the papers' tables for which the run has all data sets, with our figures.

    A table is left out if the run has only baselines of it. The best figure in each column is bold; a figure of ours
    that was not measured is a dash.
    """
    by_adapter = {params.sources[task.task].adapter: task for task in tasks if task.task in params.sources}
    learned = set(params.methods) - set(params.baseline_names)
    encoders = list(dict.fromkeys(params.encoder_of(task)[0] for task in params.tasks))
    blocks: list[Block] = []
    papers: dict[str, None] = {}
    for table in published().tables:
        if learned & table.figures.keys() and all(adapter in by_adapter for adapter in table.needs or table.data):
            papers[table.paper] = None
            shared = [[by_adapter[adapter]] for adapter in table.data] or [list(tasks)]
            machine = CATALOGUE[table.metric].of_machine
            said = f"Encoder in the paper: {table.encoder}, here: {', '.join(encoders)}."
            # Names of checkpoints start with their owner.
            if not all(name.rpartition("/")[2].startswith(table.encoder) for name in encoders):
                said += " They differ: compare the order of the methods, not the figures."
            blocks += [
                Paragraph(f"{said} {published().notes[table.note]}", machine=machine),
                _table(table, shared, machine),
            ]
    if not blocks:
        return []
    missing = " ".join(f"Not shown from {paper}: {published().left_out[paper]}." for paper in papers)
    return [Heading("Next to the paper's figures"), Paragraph(missing), *blocks]


def _table(table: PaperTable, shared: Sequence[Sequence[TaskReport]], machine: bool) -> Table:
    """Return a table with the paper's figures next to ours.

    Args:
        shared: for each column, the tasks of ours that it covers.
    """
    metric = CATALOGUE[table.metric]
    columns = [Column("Method", numeric=False, key=True)]
    rows: dict[str, list[Cell | str]] = {row: [row] for row in table.figures}
    for index, heading in enumerate(table.data.values() or ("all tasks",)):
        theirs = {row: figures[index] for row, figures in table.figures.items()}
        ours = {row: _mean(table, row, shared[index]) for row in table.figures}
        for whose, values in (("paper", theirs), ("ours", ours)):
            columns.append(Column(f"{heading}, {whose}", machine=machine))
            known = [value for value in values.values() if value is not None]
            best = metric.shown((max if metric.larger_is_better else min)(known, default=None))
            for row, value in values.items():
                text = metric.shown(value)
                rows[row].append(Cell(text, value, "best" if value is not None and text == best else ""))
    return Table(columns, list(rows.values()), f"{table.title} ({table.paper}, {table.source})")


def _mean(table: PaperTable, method: str, tasks: Sequence[TaskReport]) -> float | None:
    """Return our figure for a row, averaged over the tasks; None if a task lacks it.

    A method that trained a classifier is evaluated on it, other methods in the table on the classifier of `own_model`.
    """
    values = []
    for task in tasks:
        own = task.own_models.get(method if method in task.own_models else table.own_model, {})
        methods: Mapping[str, Any] = own.get("methods", {}) if table.own_model else task.methods
        values.append(methods.get(method, {}).get(table.metric))
    return None if None in values or not values else fmean(values)
