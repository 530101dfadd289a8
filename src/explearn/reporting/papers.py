"""The papers' own figures, to set beside ours where a run has their tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explearn.params import Params
from explearn.reporting.columns import Column
from explearn.reporting.tables import TaskReport


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table of a paper.

    Attributes:
        title, source: what it shows, and where it stands.
        note: how its setting differs from ours, for the reader.
        column: our figure that corresponds.
        adapters: the data sets of its columns, by our adapters' names, with the paper's headings. Without any, it has
            one column for all tasks.
        figures: method's registry name -> the paper's figures in the order of `adapters`.
    """

    title: str
    source: str
    note: str
    column: Column
    adapters: Mapping[str, str]
    figures: Mapping[str, Sequence[float]]


EXPNET_F1 = PaperTable(
    title="F1 on the task held out",
    source="ExpNet, Table 3",
    note="The paper explains bert-base classifiers, with its own rationales for SST-2 and CoLA.",
    column=Column("f1", "F1", True),
    adapters={"sst2": "SST-2", "cola": "CoLA", "hatexplain": "HateXplain"},
    figures={
        "expnet": (0.398, 0.468, 0.473),
        "random": (0.258, 0.387, 0.293),
        "shap": (0.330, 0.330, 0.276),
        "lime": (0.347, 0.323, 0.290),
        "integrated_gradients": (0.287, 0.342, 0.345),
        "raw_attention": (0.327, 0.353, 0.362),
        "rollout": (0.133, 0.347, 0.356),
        "lrp": (0.339, 0.355, 0.372),
        "full_lrp": (0.218, 0.336, 0.346),
        "gae": (0.350, 0.354, 0.391),
        "mgae": (0.350, 0.354, 0.391),
        "cam": (0.243, 0.355, 0.332),
        "grad_cam": (0.234, 0.356, 0.396),
        "attcat": (0.280, 0.345, 0.340),
    },
)

EXPNET_THROUGHPUT = PaperTable(
    title="Texts explained a second",
    source="ExpNet, Table 8",
    note="Another machine and a larger model: compare the order and the ratios, not the figures.",
    column=Column("throughput", "Texts a second", True, decimals=1),
    adapters={},
    figures={
        "expnet": (13.889,),
        "raw_attention": (19.23,),
        "rollout": (15.38,),
        "attcat": (7.194,),
        "cam": (2.923,),
        "full_lrp": (2.890,),
        "lrp": (2.873,),
        "grad_cam": (2.840,),
        "gae": (2.832,),
        "mgae": (2.538,),
        "shap": (1.067,),
        "integrated_gradients": (0.197,),
        "lime": (0.120,),
    },
)

PAPER_TABLES = (EXPNET_F1, EXPNET_THROUGHPUT)


@dataclass(frozen=True, slots=True)
class SideBySide:
    """A paper's table with ours beside it.

    Attributes:
        table: the paper's. headings: of the columns, the paper's and ours in turn.
        rows: method and the figures as shown, the best of each column marked by True.
    """

    table: PaperTable
    headings: list[str]
    rows: list[tuple[str, list[tuple[str, bool]]]]


def side_by_side(params: Params, tasks: Sequence[TaskReport]) -> list[SideBySide]:
    """The papers' tables beside ours, if the run has all data sets of one of them; the methods are the paper's.

    A figure of ours that was not measured is a dash.
    """
    by_adapter = {params.sources[task.task].adapter: task for task in tasks if task.task in params.sources}
    if not all(adapter in by_adapter for adapter in EXPNET_F1.adapters):
        return []
    found = []
    for table in PAPER_TABLES:
        shown = [by_adapter[adapter] for adapter in table.adapters] or None
        columns: list[list[float | None]] = []
        headings = []
        for index, name in enumerate(table.adapters.values() or ("all tasks",)):
            headings += [f"{name}, paper", f"{name}, ours"]
            columns.append([values[index] for values in table.figures.values()])
            of = tasks if shown is None else [shown[index]]
            columns.append([_mean_of(of, method, table.column.metric) for method in table.figures])
        texts = [[table.column.text(value) for value in column] for column in columns]
        best = [table.column.text(max((v for v in column if v is not None), default=None)) for column in columns]
        rows = [
            (method, [(text[row], text[row] == top and top != "–") for text, top in zip(texts, best, strict=True)])
            for row, method in enumerate(table.figures)
        ]
        found.append(SideBySide(table, headings, rows))
    return found


def _mean_of(tasks: Sequence[TaskReport], method: str, metric: str) -> float | None:
    values = [task.methods.get(method, {}).get(metric) for task in tasks]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
