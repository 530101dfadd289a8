"""The result of a comparison, as an object that displays itself and converts to tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from explearn.core.errors import ParamsError
from explearn.evaluation import MAIN, Evaluation, best_method, figures_frame, table_html
from explearn.methods.results import Number, RunFacts, TaskReport
from explearn.metrics.registry import get_metric
from explearn.report.columns import leaderboard
from explearn.report.verdict import MODEL, find_verdict
from explearn.show.blocks import Table, columns, plain, several
from explearn.show.tables import latex_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """The result of a comparison.

    Attributes:
        report: path of the page; None if none was written.
        evaluation: the metrics with intervals, values by text and paired tests.
        left_out: method -> why it is not in the comparison.
        task: everything that the page shows: figures, paired tests, values by text, sanity checks.
        run: facts about the methods and their evaluation.

    Example:
        >>> import explearn
        >>> from explearn.testing.tiny import classifier, TEXTS
        >>> comparison = explearn.compare(classifier(), TEXTS, "random", out=None)
        >>> comparison.methods["random"]["texts"]
        5
        >>> comparison.evaluation
        Evaluation(1 method on 5 texts)
    """

    report: Path | None
    evaluation: Evaluation
    left_out: Mapping[str, str]
    task: TaskReport = field(repr=False)
    run: RunFacts = field(repr=False)

    def __str__(self) -> str:
        counts = f"{several(len(self.methods), 'method')} on {several(self.texts, 'text')}"
        return f"{counts}: {self.report}" if self.report else counts

    def __repr__(self) -> str:
        return f"Comparison({self})"

    @property
    def texts(self) -> int:
        """Number of texts in the comparison."""
        return len(self.evaluation.example_ids)

    @property
    def methods(self) -> Mapping[str, Mapping[str, Number]]:
        """Method -> metric -> value, as on the page: the figures of the evaluation, and costs."""
        return self.task.methods

    @property
    def verdict(self) -> str:
        """The page's first sentences: which method to use for what."""
        return plain(find_verdict(self.run, [self.task]).sentence)

    def best(self, metric: str = MODEL) -> str:
        """Return the method with the best figure of a metric.

        Others may not be significantly worse: see `evaluation.comparisons[metric].tied`.

        Args:
            metric: name of a metric.

        Raises:
            UnknownNameError: there is no such metric.
            ParamsError: no method has it, or it has no better direction.
        """
        return best_method(self.methods, metric)

    def to_pandas(self) -> pd.DataFrame:
        """Return a frame with one row per method and one column per figure.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return figures_frame(self.methods)

    def to_latex(self, metrics: Sequence[str] = MAIN) -> str:
        r"""Return a table in LaTeX (package booktabs): means over the texts with their intervals.

        The best method in a column is bold; methods that are not significantly worse have an asterisk.

        Args:
            metrics: names of metrics; those without any figure are left out.

        Raises:
            UnknownNameError: there is no such metric.
        """
        return latex_of(self._table(metrics))

    def critical_difference(self, metric: str = MODEL) -> str:
        """Draw a critical-difference diagram as SVG: methods by mean rank, bars over those that do not differ
        significantly.

        Args:
            metric: name of a metric.

        Raises:
            UnknownNameError: there is no such metric.
            ParamsError: it has no paired tests.
        """
        from explearn.report.figures.critical_difference import critical_difference_picture
        from explearn.report.figures.style import svg

        by_text = get_metric(metric).by_text
        tests = self.task.comparisons.get(metric)
        if tests is None or len(tests.methods) < 2:
            raise ParamsError(f"metric: got {metric!r}, in which no two methods were tested")
        return svg(critical_difference_picture(tests, self.task.by_text[by_text]))

    def _repr_html_(self) -> str:
        return table_html(self._table(MAIN), str(self))

    def _table(self, metrics: Sequence[str]) -> Table:
        """Return the table of some metrics, as on the page."""
        chosen = [get_metric(name) for name in metrics]
        table = leaderboard(self.run, "", self.methods, chosen, self.task.standings)
        return table or Table(columns(["Method"]), [[method] for method in self.methods])
