"""The result of a comparison, as an object that displays itself and converts to tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from explearn.core.errors import ParamsError, UnknownNameError
from explearn.core.extras import need
from explearn.methods.results import Number, RunFacts, TaskReport
from explearn.metrics.base import Metric
from explearn.metrics.registry import CATALOGUE
from explearn.report.columns import leaderboard
from explearn.report.verdict import MODEL, find_verdict
from explearn.show.blocks import BOLD_END, BOLD_START, Cell, Table, columns
from explearn.show.tables import latex_of

if TYPE_CHECKING:
    import pandas as pd

MAIN = ("f1_topk", "auroc", "aopc_comprehensiveness", "aopc_sufficiency")
"""Default metrics of a table; metrics without any figure are left out."""


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """The result of a comparison.

    Attributes:
        report: path of the page.
        texts: number of texts in the comparison.
        methods: method -> metric -> value, as on the page; names of metrics: `explearn.list_metrics`.
        left_out: method -> why it is not in the comparison.
        task: everything that the page shows: figures, paired tests, values by text, sanity checks. run: facts about
            the methods and their evaluation.
    """

    report: Path
    texts: int
    methods: Mapping[str, Mapping[str, Number]]
    left_out: Mapping[str, str]
    task: TaskReport = field(repr=False)
    run: RunFacts = field(repr=False)

    def __str__(self) -> str:
        return f"{len(self.methods)} methods on {self.texts} texts: {self.report}"

    def __repr__(self) -> str:
        return f"Comparison({self})"

    @property
    def verdict(self) -> str:
        """The page's first sentences: which method to use for what."""
        return find_verdict(self.run, [self.task]).sentence.replace(BOLD_START, "").replace(BOLD_END, "")

    def best(self, metric: str = MODEL) -> str:
        """Return the method with the best figure of a metric.

        Others may not be significantly worse: see `task.comparisons[metric].tied`. Raises UnknownNameError for an
        unknown metric, ParamsError for a metric that no method has or that has no direction.
        """
        of = _metric(metric)
        values = {method: v for method, figures in self.methods.items() if (v := figures.get(metric)) is not None}
        if not values or of.direction is None:
            raise ParamsError(f"metric: got {metric!r}, which no method has, or which has no better direction")
        return (max if of.larger_is_better else min)(values, key=values.__getitem__)

    def to_pandas(self) -> pd.DataFrame:
        """Return a frame with one row per method and one column per figure. Raises MissingExtraError without pandas."""
        need("pandas", extra="pipeline", what="a frame")
        import pandas as pd

        return pd.DataFrame.from_dict(dict(self.methods), orient="index").dropna(axis="columns", how="all")

    def to_latex(self, metrics: Sequence[str] = MAIN) -> str:
        r"""Return a table in LaTeX (package booktabs): means over the texts with their intervals.

        The best method in a column is bold; methods that are not significantly worse (paired tests, `task.comparisons`)
        have an asterisk. Raises UnknownNameError for an unknown metric.
        """
        return latex_of(self._table(metrics))

    def critical_difference(self, metric: str = MODEL) -> str:
        """Draw a critical-difference diagram as SVG: methods by mean rank, bars over those that do not differ
        significantly.

        Raises UnknownNameError for an unknown metric, ParamsError for one without paired tests, MissingExtraError
        without `explearn[report]`.
        """
        from explearn.report.figures.critical_difference import critical_difference_picture
        from explearn.report.figures.style import svg

        of, tests = _metric(metric), self.task.comparisons.get(metric)
        if tests is None or len(tests.methods) < 2:
            raise ParamsError(f"metric: got {metric!r}, in which no two methods were tested")
        return svg(critical_difference_picture(tests, self.task.by_text[of.by_text]))

    def _repr_html_(self) -> str:
        table = self._table(MAIN)
        rows = ["".join(f"<th>{escape(column.title)}</th>" for column in table.columns)]
        rows += ["".join(f"<td>{_html(cell)}</td>" for cell in row) for row in table.rows]
        note = "bold: best; *: not significantly worse; small: intervals"
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table><p>{escape(str(self))} ({note})</p>"

    def _table(self, metrics: Sequence[str]) -> Table:
        """Return the table of some metrics, as on the page."""
        names = [_metric(name) for name in metrics]
        table = leaderboard(self.run, "", self.methods, names, self.task.standings)
        return table or Table(columns(["Method"]), [[method] for method in self.methods])


def _metric(name: str) -> Metric:
    if name not in CATALOGUE:
        raise UnknownNameError("metric", name, CATALOGUE)
    return CATALOGUE[name]


def _html(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return escape(cell)
    start, end = {"best": ("<b>", "</b>"), "tied": ("", "*")}.get(cell.mark, ("", ""))
    return f"{start}{cell.text}{end}" + (f" <small>{cell.note}</small>" if cell.note else "")
