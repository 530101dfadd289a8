"""The papers' figures next to ours, if a run has their data.

The papers' figures are in papers.yaml.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from explearn.core.documents import read_yaml
from explearn.core.validation import Section
from explearn.evaluation.result import Evaluation
from explearn.metrics.arrays import mean_of_known
from explearn.metrics.registry import CATALOGUE
from explearn.show.blocks import Block, Cell, Column, Fold, Heading, Paragraph, Table, several
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
    """Whether baselines explain the classifier that the explainer under study trained."""


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


def paper_blocks(params: Params, tasks: Sequence[Evaluation], own: Sequence[Evaluation] = ()) -> list[Block]:
    """Return the papers' tables with our figures, for the data sets that the run has.

    A table is left out if the run has only baselines of it. The best figure in each column is bold; a figure of ours
    that was not measured is a dash.

    Args:
        params: the run's parameters.
        tasks: its evaluations.
        own: those on the classifiers that the explainer under study trained, if it did.
    """
    by_adapter = _by_adapter(params, tasks)
    on_one = _by_adapter(params, [_with_own_models(*pair) for pair in zip(own, tasks, strict=False)])
    encoders = list(dict.fromkeys(params.encoder_of(task)[0] for task in params.tasks))
    tables = [table for table in published().tables if _fits(table, params, by_adapter)]
    if not tables:
        return []
    papers = dict.fromkeys(table.paper for table in tables)
    missing = " ".join(f"Not shown from {paper}: {published().left_out[paper]}." for paper in papers)
    blocks: list[Block] = [Paragraph(missing)]
    for table in tables:
        machine = CATALOGUE[table.metric].of_machine
        text = f"Encoder in the paper: {table.encoder}, here: {', '.join(encoders)}."
        # Names of checkpoints start with their owner.
        if not all(name.rpartition("/")[2].startswith(table.encoder) for name in encoders):
            text += " They differ: compare the order of the methods, not the figures."
        found = on_one if table.one_classifier else by_adapter
        shared = [found.get(adapter, []) for adapter in table.data] or [list(tasks)]
        blocks.append(Paragraph(f"{text} {published().notes[table.note]}", machine=machine))
        blocks.append(_table(table, shared, machine))
    return [
        Heading("Next to the papers' figures"),
        Fold(f"{several(len(tables), 'table')} of papers, with ours", blocks),
    ]


def _by_adapter(params: Params, tasks: Iterable[Evaluation]) -> dict[str, Sequence[Evaluation]]:
    return {params.sources[task.task].adapter: [task] for task in tasks if task.task in params.sources}


def _with_own_models(own: Evaluation, task: Evaluation) -> Evaluation:
    """Return an evaluation on one classifier with the methods of a task that trained others."""
    figures = {method: row for method, row in task.figures.items() if task.infos[method].own_model}
    return own.model_copy(update={"figures": figures | own.figures})


def _fits(table: PaperTable, params: Params, adapters: Iterable[str]) -> bool:
    """Return whether the run has one of a table's data sets and one of its learned methods."""
    learned = params.methods.keys() - params.baseline_names
    if table.one_classifier and not (params.on_own_classifier and params.explainer in table.figures):
        return False
    data = table.needs or table.data
    return not (learned.isdisjoint(table.figures) or set(adapters).isdisjoint(data))


def _table(table: PaperTable, shared: Sequence[Sequence[Evaluation]], machine: bool) -> Table:
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
            values = [task.figures.get(row, {}).get(table.metric) for task in shared[index]]
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
