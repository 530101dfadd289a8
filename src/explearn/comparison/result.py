"""The result of a comparison, as an object that shows itself and turns into tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from explearn.core.errors import ParamsError, UnknownNameError
from explearn.core.extras import need
from explearn.judge.catalogue import CATALOGUE, Metric
from explearn.methods.results import Number, TaskReport
from explearn.show.columns import shown, title

if TYPE_CHECKING:
    import pandas as pd

MAIN = ("f1_topk", "auroc", "aopc_comprehensiveness", "aopc_sufficiency")
"""Metrics of a table where none are named; those without any figure are left out."""

_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "_&%#${}"} | {"↑": r"$\uparrow$", "↓": r"$\downarrow$", "–": "--"}
)


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """The result of a comparison.

    Attributes:
        report: the page.
        texts: how many texts were compared on.
        methods: method -> metric -> value, as in the page; names of metrics: `explearn.judge.catalogue`.
        left_out: method -> why it is not in the comparison.
        seconds: what took how long. `explain` is the sum of the methods' own times, what they import and compile
            included, without those of an earlier run; `time`, what it takes to measure and keep them.
        task: all that the page shows: besides the figures, paired tests, values by text, sanity checks.
    """

    report: Path
    texts: int
    methods: Mapping[str, Mapping[str, Number]]
    left_out: Mapping[str, str]
    seconds: Mapping[str, float]
    task: TaskReport = field(repr=False)

    def __str__(self) -> str:
        return f"{len(self.methods)} methods on {self.texts} texts: {self.report}"

    def __repr__(self) -> str:
        return f"Comparison({self})"

    def best(self, metric: str = "aopc_comprehensiveness") -> str:
        """Return the method with the best figure of a metric.

        Others may not be significantly worse: `task.comparisons[metric].tied`. Raises UnknownNameError for no metric,
        ParamsError for one that no method has or that has no direction.
        """
        of = _metric(metric)
        values = {method: v for method, figures in self.methods.items() if (v := figures.get(metric)) is not None}
        if not values or of.direction is None:
            raise ParamsError(f"metric: got {metric!r}, which no method has, or of which no value is the best")
        return (max if of.larger_is_better else min)(values, key=values.__getitem__)

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with a row a method and a column a figure. Raises MissingExtraError without pandas."""
        need("pandas", extra="pipeline", what="a frame")
        import pandas as pd

        return pd.DataFrame.from_dict(dict(self.methods), orient="index")

    def to_latex(self, metrics: Sequence[str] = MAIN) -> str:
        r"""Return a table in LaTeX (package booktabs): means over the texts with their intervals.

        The best method of a column is bold; those that are not significantly worse (paired tests, `task.comparisons`)
        have an asterisk. Raises UnknownNameError for what is no metric.
        """
        columns = self._columns(metrics)
        marks = {"best": (r"\textbf{", "}"), "tied": ("", "$^*$"), "": ("", "")}
        heads = [title(of).translate(_LATEX) for of in columns]
        lines = [rf"\begin{{tabular}}{{l{'r' * len(columns)}}}", r"\toprule", _row(["Method", *heads]), r"\midrule"]
        for method in self.methods:
            cells = [method.translate(_LATEX)]
            for of in columns:
                start, end = marks[self._mark(of, method)]
                interval = self._interval(of, method)
                figure = shown(of, self.methods[method].get(of.name)).translate(_LATEX)
                cells.append(f"{start}{figure}{end}" + (rf" {{\scriptsize {interval}}}" if interval else ""))
            lines.append(_row(cells))
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])

    def _repr_html_(self) -> str:
        columns = self._columns(MAIN)
        rows = ["".join(f"<th>{escape(cell)}</th>" for cell in ["Method", *map(title, columns)])]
        for method, figures in self.methods.items():
            cells = [f"<td>{escape(method)}</td>"]
            for of in columns:
                start, end = {"best": ("<b>", "</b>"), "tied": ("", "*"), "": ("", "")}[self._mark(of, method)]
                cells.append(f"<td>{start}{shown(of, figures.get(of.name))}{end}</td>")
            rows.append("".join(cells))
        note = "bold: best; *: not significantly worse"
        table = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table>{table}</table><p>{escape(str(self))} ({note})</p>"

    def _columns(self, metrics: Sequence[str]) -> list[Metric]:
        named = [_metric(name) for name in metrics]
        return [of for of in named if any(figures.get(of.name) is not None for figures in self.methods.values())]

    def _mark(self, of: Metric, method: str) -> str:
        tests = self.task.comparisons.get(of.name)
        return "" if tests is None else "best" if method in tests.best else "tied" if method in tests.tied else ""

    def _interval(self, of: Metric, method: str) -> str:
        low, high = (self.methods[method].get(f"{of.name}_{end}") for end in ("low", "high"))
        return "" if low is None or high is None else f"[{low:.{of.decimals}f}, {high:.{of.decimals}f}]"


def _metric(name: str) -> Metric:
    if name not in CATALOGUE:
        raise UnknownNameError("metric", name, CATALOGUE)
    return CATALOGUE[name]


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
