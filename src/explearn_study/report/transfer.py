"""The section on how explainers transfer to tasks they were not trained on: tables, and heat maps of the gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from explearn.methods.results import Number
from explearn.metrics.registry import CATALOGUE
from explearn.report.columns import column
from explearn.show.blocks import Block, Heading, Paragraph, Picture, Table, columns
from explearn.show.heat_map import draw_heat_map

CRITERIA = {
    "sim": CATALOGUE["simulatability"],
    "comp": CATALOGUE["aopc_comprehensiveness"],
    "suff": CATALOGUE["aopc_sufficiency"],
    "cons": CATALOGUE["consistency"],
}
"""Criterion -> the metric that measures it."""

SMALLEST = 0.01
"""Relative gains over a figure closer to 0 than this are meaningless and left out."""

INTRODUCTION = (
    "Each explainer, with the classifier that it trained on one task, is used on the texts of another task with the "
    "same classes (IvRA, appendix E). Gains compare it with the explainer trained on that task, in percent of the "
    "latter's figure. Below 0, training on the task itself is better. A dash: the latter's figure is too close to 0."
)


def transfer_blocks(documents: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Return a table and a heat map for each explainer. documents: the results of the study transfer for each."""
    blocks: list[Block] = [Heading("Transfer to other tasks"), Paragraph(INTRODUCTION)] if documents else []
    metrics = [CATALOGUE["accuracy"], *CRITERIA.values()]
    for document in documents:
        name = document["explainer"]
        rows, moves, gains = [], [], []
        for task, by_source in document["tasks"].items():
            # Explainers trained on the task itself come first.
            for source in (task, *(source for source in by_source if source != task)):
                figures = by_source[source]
                rows.append([task, source, *(metric.shown(figures[metric.name]) for metric in metrics)])
                if source != task:
                    moves.append(f"{source} → {task}")
                    gains.append(
                        [gain(figures[m.name], by_source[task][m.name], m.larger_is_better) for m in metrics[1:]]
                    )
        texts = ", ".join(f"{task} {count}" for task, count in document["texts"].items())
        title = f"Gain of {name} trained on another task over {name} trained on the task itself, in percent"
        blocks += [
            Paragraph(f"{name}, trained for {', '.join(document['criteria'])}. Texts: {texts}."),
            Table([*columns(["Task", "Trained on"]), *map(column, metrics)], rows, f"{name} on other tasks"),
            Picture(
                f"figures/transfer-{name}.svg",
                title,
                f"{title}, by criterion",
                (1.1 * len(CRITERIA) + 2.2, 0.45 * len(moves) + 1.6),
                partial(_draw, gains, moves, title),
            ),
        ]
    return blocks


def gain(new: Number, old: Number, larger_is_better: bool) -> float:
    """Return the relative gain of one figure over another in percent.

    NaN if either is unknown or the old one is close to 0.
    """
    if new is None or old is None or abs(old) < SMALLEST:
        return float("nan")
    return 100 * (1 if larger_is_better else -1) * (new - old) / abs(old)


def _draw(gains: Sequence[Sequence[float]], moves: Sequence[str], title: str, figure: Any) -> None:
    draw_heat_map(figure.subplots(), gains, moves, list(CRITERIA), title, "+.0f")
