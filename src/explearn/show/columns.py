"""The columns of the report's tables, and their cells: figure, interval, and who is best or ties with the best."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from explearn.judge.catalogue import CATALOGUE, Group
from explearn.methods.registry import get_info, leaderboard_order, list_explainers
from explearn.show.markdown import Markdown
from explearn.show.task_report import Number


@dataclass(frozen=True, slots=True)
class Column:
    """A column of figures.

    Attributes:
        metric: name among a method's metrics.
        heading: what readers see.
        larger_is_better: direction; None where neither is better and no cell is marked.
        suffix: behind each figure. decimals: shown of it.
        noise: share of the best figure by which another may be worse and still be marked as best, being measured no
            more exactly than that.
        limit: what no true figure can be better than; better ones are shown as this one.
        passes: counts model passes, which say too little of methods that do other work (MethodInfo.uncounted).
    """

    metric: str
    heading: str
    larger_is_better: bool | None
    suffix: str = ""
    decimals: int = 3
    noise: float = 0.0
    limit: float | None = None
    passes: bool = False

    @property
    def title(self) -> str:
        arrow = {True: " ↑", False: " ↓", None: ""}[self.larger_is_better]
        return f"{self.heading}{arrow}"

    def text(self, value: Number) -> str:
        """The value as shown; a plain 0.000 for values that round to zero."""
        if value is None:
            return "–"
        return f"{round(self._limited(value), self.decimals) + 0.0:,.{self.decimals}f}{self.suffix}"

    def best(self, values: Sequence[Number]) -> float | None:
        """The best of the values; None where there is none, or no direction."""
        known = [self._limited(value) for value in values if value is not None]
        if not known or self.larger_is_better is None:
            return None
        return max(known) if self.larger_is_better else min(known)

    def is_best(self, value: Number, best: float | None) -> bool:
        """Whether a value shows the same figure as `best`, or cannot be told from it for noise."""
        if value is None or best is None:
            return False
        return self.text(value) == self.text(best) or abs(self._limited(value) - best) <= self.noise * abs(best)

    def _limited(self, value: float) -> float:
        if self.limit is None or self.larger_is_better is None:
            return value
        return min(value, self.limit) if self.larger_is_better else max(value, self.limit)


COST_NOISE = 0.1
"""Share by which times and memory differ from run to run: classifying the same texts, timed anew for each method of
the committed report, took 0.9 to 1.1 times as long as on average."""


def column(metric: str, **changes: Any) -> Column:
    """A metric of the catalogue as a column; times and memory have COST_NOISE.

    Args:
        metric: name; KeyError for one that the catalogue does not have.
        changes: attributes of `Column` to set otherwise.
    """
    entry = CATALOGUE[metric]
    found = Column(
        metric,
        entry.heading,
        None if entry.direction is None else entry.larger_is_better,
        suffix=entry.suffix,
        decimals=entry.decimals,
        noise=COST_NOISE if entry.of_machine else 0.0,
        limit=entry.limit,
        passes=entry.passes,
    )
    return replace(found, **changes)


def columns_of(group: Group) -> tuple[Column, ...]:
    """The columns of one of the catalogue's tables, in its order."""
    return tuple(column(m.name) for m in CATALOGUE.values() if m.group == group and not m.derived)


@dataclass(frozen=True, slots=True)
class Table:
    """A leaderboard: its name in links, its title, and its columns."""

    name: str
    title: str
    columns: tuple[Column, ...]


PLAUSIBILITY_COLUMNS = columns_of("plausibility")
FAITHFULNESS_COLUMNS = columns_of("faithfulness")
BEHAVIOUR_COLUMNS = columns_of("behaviour")
COST_COLUMNS = columns_of("cost")
DISTRIBUTION_COLUMNS = columns_of("distribution")
OWN_MODEL_COLUMNS = tuple(
    column(metric)
    for metric in ("simulatability", "aopc_comprehensiveness", "aopc_sufficiency", "consistency", "important_words")
)
"""Of methods on the classifier that an explainer trained for itself."""
UNCOUNTED = "+"
"""Behind the counted passes of methods that do other work besides."""
COST_NOTE = Markdown(
    "Precision, recall and costs are not tested: there all are bold that show the best figure, and of times and memory "
    f"all within {100 * COST_NOISE:g} % of it, since they differ by as much from run to run. A speed measured above 1× "
    f"is shown as 1×. A {UNCOUNTED} behind passes: the method does other work besides (see Methods), and is not marked."
)

TABLES = (
    Table("plausibility", "Agreement with the marked words", PLAUSIBILITY_COLUMNS),
    Table("faithfulness", "Agreement with the model", FAITHFULNESS_COLUMNS),
    Table("behaviour", "Alike for like texts, and instructive", BEHAVIOUR_COLUMNS),
    Table("cost", "Cost", COST_COLUMNS),
)
"""The leaderboards of a task, all of which hold every method."""

DISTRIBUTION = Table("distribution", "The classifier on shortened texts", DISTRIBUTION_COLUMNS)


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure as shown, with what sorting needs and how it is marked.

    Attributes:
        value, text: the figure, and as shown.
        best: no method has a better one. tied: worse than the best, but not significantly so.
        low, high: bounds of its interval as shown; empty where there is none.
    """

    value: Number
    text: str
    best: bool = False
    tied: bool = False
    low: str = ""
    high: str = ""

    def markdown(self, interval: bool) -> Markdown:
        marked = f"**{self.text}**" if self.best else f"<u>{self.text}</u>" if self.tied else self.text
        return Markdown(f"{marked} ({self.low}–{self.high})" if interval and self.low else marked)


OWN_MODEL_MARK, WATCHING_MARK = "†", "‡"
MARKS = {
    OWN_MODEL_MARK: "explains a classifier of its own, so that its figures from AOPC to Simulatability do not compare "
    "with the others'.",
    WATCHING_MARK: "searches, on every text, for what is best by a metric of faithfulness: its figures under that "
    "metric are optimised.",
}
"""What stands behind the names of some methods in tables, and what it says of them."""


def mark(method: str) -> str:
    """The mark of a method, empty where it has none or is not registered."""
    if method not in list_explainers():
        return ""
    info = get_info(method)
    return OWN_MODEL_MARK if info.own_model else WATCHING_MARK if info.watches_metric else ""


def marked(method: str) -> str:
    """A method's name as tables show it."""
    return f"{method} {found}" if (found := mark(method)) else method


def used_marks(methods: Iterable[str]) -> list[str]:
    """A sentence for each mark that some of the methods have."""
    found = {mark(method) for method in methods}
    return [f"{sign} {meaning}" for sign, meaning in MARKS.items() if sign in found]


def comparable(method: str, metric: str) -> bool:
    """Whether a method's figure compares with the others': not where it explains, and the metric asks, a classifier of
    its own."""
    return not (get_info(method).own_model and metric in CATALOGUE and CATALOGUE[metric].of_model)


class Standing(Protocol):
    """Who has the best figure of a metric, and who is worse, but not significantly so."""

    @property
    def best(self) -> Collection[str]: ...
    @property
    def tied(self) -> Collection[str]: ...


@dataclass(frozen=True, slots=True)
class Row:
    """A method's cells, one a column."""

    family: str
    method: str
    cells: tuple[Cell, ...]


def leaderboard(
    methods: Mapping[str, Mapping[str, Number]],
    columns: Sequence[Column],
    comparisons: Mapping[str, Standing] | None = None,
) -> list[Row]:
    """One row a method, in leaderboard order.

    Where there is a comparison of the metric, it says who is best and who ties. In other columns all are best that show
    the best figure, or differ from it by no more than the column's noise, and none ties. Passes of methods whose work
    they do not count whole end in UNCOUNTED and are never best.
    """
    found = comparisons or {}
    best = {column.metric: _best(column, methods) for column in columns}
    rows = []
    for method in leaderboard_order(methods):
        cells = []
        for column in columns:
            figures = methods[method]
            value = figures.get(column.metric)
            partial = value is not None and _counts_in_part(column, method)
            text = column.text(value) + UNCOUNTED * partial
            comparison = found.get(column.metric)
            low, high = figures.get(f"{column.metric}_low"), figures.get(f"{column.metric}_high")
            bounded = low is not None and high is not None
            cells.append(
                Cell(
                    value,
                    text,
                    best=not partial and column.is_best(value, best[column.metric])
                    if comparison is None
                    else method in comparison.best,
                    tied=comparison is not None and method in comparison.tied,
                    low=f"{low:.2f}" if bounded else "",
                    high=f"{high:.2f}" if bounded else "",
                )
            )
        rows.append(Row(get_info(method).family, method, tuple(cells)))
    return rows


def _counts_in_part(column: Column, method: str) -> bool:
    return column.passes and get_info(method).uncounted


def _best(column: Column, methods: Mapping[str, Mapping[str, Number]]) -> float | None:
    return column.best(
        [figures.get(column.metric) for method, figures in methods.items() if not _counts_in_part(column, method)]
    )
