"""Tables of methods' figures: which metrics they show, and which methods are best or tied with the best."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from explearn.evaluation import Standing, figure_cell
from explearn.methods.results import Number, RunFacts, TaskReport
from explearn.metrics.base import Group, Metric
from explearn.metrics.registry import CATALOGUE
from explearn.show.blocks import Cell, Column, Table

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

OWN_MODEL_MARK = "†"
WATCHING_MARK = "‡"
MARKS = {
    OWN_MODEL_MARK: "explains a classifier of its own, so its figures from AOPC to Simulatability cannot be compared "
    "with other methods.",
    WATCHING_MARK: "optimises a faithfulness metric on every text: its figures under that metric are optimised.",
}
"""Marks after some methods' names in tables, and their meaning."""


def metrics_of(group: Group) -> list[Metric]:
    """Return a group's metrics, in the catalogue's order."""
    return [metric for metric in CATALOGUE.values() if metric.group == group and not metric.derived]


def column(metric: Metric) -> Column:
    """Return the column of a metric."""
    return Column(metric.title, ascending=metric.direction == "lower", machine=metric.of_machine)


def marked(run: RunFacts, method: str) -> str:
    """Return a method's name as tables show it, with its mark."""
    info = run.methods[method]
    if info.own_model:
        return f"{method} {OWN_MODEL_MARK}"
    if info.watches_metric:
        return f"{method} {WATCHING_MARK}"
    return method


def used_marks(run: RunFacts, tasks: Sequence[TaskReport]) -> str:
    """Return a sentence for each mark that any of the methods has, with the accuracies of own classifiers."""
    marks = {marked(run, method)[-1] for method in run.methods}
    sentences = [f"{sign} {meaning}" for sign, meaning in MARKS.items() if sign in marks]
    accuracies = []
    for task in tasks:
        for method, notes in task.notes.items():
            if run.methods[method].own_model and "accuracy" in notes:
                before, after = notes["accuracy"]
                accuracies.append(f"{method} on {task.task} {after:.3f} ({before:.3f})")
    if accuracies:
        start = "Accuracy of its classifier, and of the task's, on validation texts"
        sentences.append(f"{start}: {'; '.join(accuracies)}.")
    return " ".join(sentences)


def leaderboard(
    run: RunFacts,
    caption: str,
    figures: Mapping[str, Mapping[str, Number]],
    metrics: Sequence[Metric],
    standings: Mapping[str, Standing] | None = None,
    unranked: Collection[str] = (),
) -> Table | None:
    """Return a table with a row for each method, or None if no method has any of the metrics.

    If `standings` has a metric, it says which methods are best and which are tied. In other columns every method that
    shows the best figure is best (for figures of the machine, within COST_NOISE of it), and none is tied. Methods whose
    figure cannot be compared, or whose passes do not count all of their work, are never best.

    Args:
        run: facts about the methods.
        caption: the table's caption.
        figures: method -> metric -> value; with f"{metric}_low" and f"{metric}_high", the bounds of its interval.
        metrics: the columns; those without any figure are left out.
        standings: metric -> its best and tied methods.
        unranked: names of metrics in which no method is best.
    """
    methods = run.ordered(figures)
    heads = [Column("Method", numeric=False, key=True)]
    rows: list[list[Cell | str]] = [[marked(run, method)] for method in methods]
    for metric in metrics:
        values: dict[str, float] = {}
        for method in methods:
            value = figures[method].get(metric.name)
            if value is not None:
                values[method] = value
        if not values:
            continue
        partial = [method for method in values if metric.passes and run.methods[method].uncounted]
        comparable = {}
        for method, value in values.items():
            if run.comparable(method, metric.name) and method not in partial:
                comparable[method] = metric.limited(value)
        standing: Standing = (_best(metric, comparable), ())
        standing = (standings or {}).get(metric.name, standing)
        if metric.name in unranked:
            standing = (), ()
        heads.append(column(metric))
        for method, row in zip(methods, rows, strict=True):
            after = UNCOUNTED * (method in partial)
            row.append(figure_cell(metric, method, figures[method], standing, after))
    if len(heads) == 1:
        return None
    return Table(heads, rows, caption, methods)


def _best(metric: Metric, values: Mapping[str, float]) -> list[str]:
    """Return the methods that show the best figure of a metric without tests."""
    if metric.direction is None or not values:
        return []
    top = values[metric.best(values)]
    noise = 0.0
    if metric.of_machine:
        noise = COST_NOISE * abs(top)
    best = []
    for method, value in values.items():
        if abs(value - top) <= noise or metric.shown(value) == metric.shown(top):
            best.append(method)
    return best
