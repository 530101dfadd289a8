"""Tables of methods' figures: which metrics they show, and which methods are best or tied with the best."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from explearn.methods.results import Number, RunFacts
from explearn.metrics.catalogue import CATALOGUE, Group, Metric
from explearn.show.blocks import Cell, Column, Mark, Table

COST_NOISE = 0.1
"""Share by which times and memory differ from run to run: classifying the same texts, timed anew for each method of
the committed report, took 0.9 to 1.1 times as long as on average."""

UNCOUNTED = "+"
"""Follows the pass counts of methods that also do other work (MethodInfo.uncounted)."""

COST_NOTE = (
    "Precision, recall and costs are not tested: there every best figure is bold, and for times and memory every "
    f"figure within {100 * COST_NOISE:g} % of the best, since they vary as much from run to run. A speed measured "
    f"above 1× is shown as 1×. A {UNCOUNTED} after passes: the method also does other work (see Methods), and is never "
    "bold."
)

OWN_MODEL_MARK, WATCHING_MARK = "†", "‡"
MARKS = {
    OWN_MODEL_MARK: "explains a classifier of its own, so its figures from AOPC to Simulatability cannot be compared "
    "with other methods.",
    WATCHING_MARK: "optimises a faithfulness metric on every text: its figures under that metric are optimised.",
}
"""Marks after some methods' names in tables, and their meaning."""


def metrics_of(group: Group) -> list[Metric]:
    """Return a group's metrics, in the catalogue's order."""
    return [metric for metric in CATALOGUE.values() if metric.group == group and not metric.derived]


def title(metric: Metric) -> str:
    """Return a metric's heading, with an arrow that shows which way is better."""
    return metric.heading + {"higher": " ↑", "lower": " ↓", None: ""}[metric.direction]


def shown(metric: Metric, value: Number) -> str:
    """Format a figure for tables: a plain 0.000 for values that round to zero, a dash for None."""
    if value is None:
        return "–"
    return f"{round(_limited(metric, value), metric.decimals) + 0.0:,.{metric.decimals}f}{metric.suffix}"


def _limited(metric: Metric, value: float) -> float:
    if metric.limit is None:
        return value
    return min(value, metric.limit) if metric.larger_is_better else max(value, metric.limit)


def column(metric: Metric) -> Column:
    """Return the column of a metric."""
    return Column(title(metric), ascending=metric.direction == "lower", machine=metric.of_machine)


def marked(run: RunFacts, method: str) -> str:
    """Return a method's name as tables show it, with its mark."""
    info = run.methods[method]
    mark = OWN_MODEL_MARK if info.own_model else WATCHING_MARK if info.watches_metric else ""
    return f"{method} {mark}".strip()


def used_marks(run: RunFacts) -> str:
    """Return a sentence for each mark that any of the methods has."""
    marks = {marked(run, method)[-1] for method in run.methods}
    return " ".join(f"{sign} {meaning}" for sign, meaning in MARKS.items() if sign in marks)


Standing = tuple[Collection[str], Collection[str]]
"""The methods with the best figure of a metric, and those that are not significantly worse."""


def leaderboard(
    run: RunFacts,
    caption: str,
    figures: Mapping[str, Mapping[str, Number]],
    metrics: Sequence[Metric],
    standings: Mapping[str, Standing] | None = None,
) -> Table | None:
    """Return a table with a row for each method, or None if no method has any of the metrics.

    If `standings` has a metric, it says which methods are best and which are tied. In other columns every method that
    shows the best figure is best (for figures of the machine, within COST_NOISE of it), and none is tied. Methods whose
    figure cannot be compared, or whose passes do not count all of their work, are never best.

    Args:
        figures: method -> metric -> value; with f"{metric}_low" and f"{metric}_high", the bounds of its interval.
    """
    methods = run.ordered(figures)
    metrics = [metric for metric in metrics if any(figures[method].get(metric.name) is not None for method in methods)]
    if not metrics:
        return None
    rows: list[list[Cell | str]] = [[marked(run, method)] for method in methods]
    for metric in metrics:
        partial = {method for method in methods if metric.passes and run.methods[method].uncounted}
        counted = {m for m in methods if m not in partial and run.comparable(m, metric.name)}
        values = {m: _limited(metric, v) for m in counted if (v := figures[m].get(metric.name)) is not None}
        standing = (standings or {}).get(metric.name)
        noise = COST_NOISE if metric.of_machine else 0.0
        top = (max if metric.direction == "higher" else min)(values.values(), default=None)
        for method, row in zip(methods, rows, strict=True):
            value = figures[method].get(metric.name)
            low, high = (figures[method].get(f"{metric.name}_{end}") for end in ("low", "high"))
            mark: Mark
            if standing is not None:
                mark = "best" if method in standing[0] else "tied" if method in standing[1] else ""
            else:
                near = top is not None and method in values and abs(values[method] - top) <= noise * abs(top)
                same = method in values and shown(metric, values[method]) == shown(metric, top)
                mark = "best" if metric.direction and (near or same) else ""
            row.append(
                Cell(
                    shown(metric, value) + UNCOUNTED * (method in partial and value is not None),
                    value,
                    mark,
                    "" if low is None or high is None else f"{low:.2f} to {high:.2f}",
                )
            )
    return Table([Column("Method", numeric=False, key=True), *map(column, metrics)], rows, caption, methods)
