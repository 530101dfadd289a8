"""What explanations cost, and the figures that depend on the machine kept apart from all others."""

from __future__ import annotations

from collections.abc import Mapping

from explearn.core.errors import DataError
from explearn.judge.arrays import mean_of_known
from explearn.judge.catalogue import CATALOGUE
from explearn.judge.columns import Columns
from explearn.judge.context import Context

Number = int | float | None
Figures = dict[str, dict[str, Number]]
"""Method -> metric -> figure."""

FIELDS = ("forward_passes", "backward_passes")
"""What is known of a method's run, as of `explearn.judge.evaluate.evaluate_task`."""


def measure(context: Context) -> Columns:
    """Passes of each method for one text, its completeness error, and on how much it was measured.

    unaligned_words: words without a sub-token, or that the model did not read.
    Raises DataError for a number of passes that is missing.
    """
    columns = Columns()
    for method, texts in context.attributions.items():
        cost = context.costs[method]
        for name in FIELDS:
            if name not in cost:
                raise DataError(
                    f"task {context.task!r}, method {method!r}: cost {name!r} is missing; got {', '.join(cost)}"
                )
        columns.figures[method] |= {
            **{name: cost[name] for name in FIELDS},
            "completeness_error": mean_of_known([text.completeness_error for text in texts]),
            "texts": len(texts),
            "unaligned_words": sum(text.unaligned for text in texts),
        }
    return columns


def of_machine(metric: str) -> bool:
    """Whether a figure depends on the machine and its load, by the catalogue; False for names it does not have."""
    return metric in CATALOGUE and CATALOGUE[metric].of_machine


def split_costs(metrics: Mapping[str, Mapping[str, Number]]) -> tuple[Figures, Figures]:
    """Two parts of the same methods' figures: those that any machine gives, and those that depend on the machine.

    Every method is in both parts, if need be with nothing. The order of methods and metrics stays.

    Args:
        metrics: method -> metric -> figure.
    """
    figures: Figures = {}
    costs: Figures = {}
    for method, row in metrics.items():
        figures[method] = {name: value for name, value in row.items() if not of_machine(name)}
        costs[method] = {name: value for name, value in row.items() if of_machine(name)}
    return figures, costs


def join_costs(figures: Mapping[str, Mapping[str, Number]], costs: Mapping[str, Mapping[str, Number]]) -> Figures:
    """What `split_costs` took apart, in one; the costs stand behind each method's other figures.

    Raises DataError where the two are not of the same methods, or a figure is in both.
    """
    if set(figures) != set(costs):
        odd = ", ".join(sorted(set(figures) ^ set(costs)))
        raise DataError(f"figures and costs are not of the same methods ({odd} in one alone); run evaluate again")
    for method, row in figures.items():
        twice = sorted(set(row) & set(costs[method]))
        if twice:
            raise DataError(f"method {method!r}: {twice[0]!r} is both a figure and a cost; expected it once")
    return {method: {**row, **costs[method]} for method, row in figures.items()}
