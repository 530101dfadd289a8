"""The section on how Marker improves with marked texts of a task: a plot, and a table of the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from explearn.evaluation.result import Evaluation
from explearn.report.run import RunFacts
from explearn.show.blocks import Block, Fold, Heading, Paragraph, Picture, Table, columns, figure

SHOWN = {"f1_topk": "F1 top-K", "auroc": "AUROC", "f1": "F1"}

BEST = 3
"""Number of best baselines that are drawn."""

LINEAR_TO = 5
"""Marked texts up to which the axis is linear, so that 0 has a place; from there on it is logarithmic."""

INTRODUCTION = (
    "Marker is trained on none of a task's marked texts (universal: the other tasks' consensus marks the task's "
    "texts for it), on some (few_shot), and on all that the classifier gets right (in_domain). Points are means over "
    "draws of the texts; the dashed lines are baselines on the same test texts."
)

# In inches.
_WIDTH = 8.6
_PANEL_HEIGHT = 2.35


def curve_blocks(run: RunFacts, curves: Mapping[str, Mapping[str, Any]]) -> list[Block]:
    """Return the section.

    Args:
        run: the run.
        curves: task -> document of the study marks_curve.
    """
    if not curves:
        return []
    tasks = [task for task in run.tasks if task.task in curves]
    rows = []
    for task in tasks:
        for point in curves[task.task]["points"]:
            rows.append([task.task, str(point["marks"]), *(figure(point[name]) for name in SHOWN)])
    return [
        Heading("What marked texts bring"),
        Paragraph(INTRODUCTION),
        Picture(
            "figures/marks.svg",
            "F1 and AUROC by number of marked texts",
            "F1 top-K and AUROC against the number of marked texts, one row of panels per task",
            (_WIDTH, _PANEL_HEIGHT * len(tasks) + 0.5),
            partial(_draw, tasks, curves),
        ),
        Fold(
            "The figures of all points",
            [Table(columns(["Task"], ["Marked texts", *SHOWN.values()]), rows)],
        ),
    ]


def drawn_baselines(task: Evaluation, metric: str) -> dict[str, float]:
    """Return the best baselines in a metric, best first: method -> its figure."""
    values = {name: value for name, value in task.values(metric).items() if not task.infos[name].learned}
    best = sorted(values, key=lambda name: -values[name])
    return {name: values[name] for name in best[:BEST]}


def _draw(tasks: Sequence[Evaluation], curves: Mapping[str, Mapping[str, Any]], figure: Any) -> None:
    from matplotlib.ticker import MaxNLocator, NullLocator

    from explearn.report.figures.style import FAINT, STYLES

    colour = STYLES["learned"][0]
    grid = figure.subplots(len(tasks), 2, squeeze=False)
    for row, task in zip(grid, tasks, strict=True):
        for axes, metric in zip(row, ("f1_topk", "auroc"), strict=True):
            points = pd.DataFrame(curves[task.task]["points"])
            marks = points["marks"].tolist()
            # None becomes NaN, which is not drawn.
            figures = points[[metric, f"{metric}_low", f"{metric}_high"]].astype(float)
            axes.set_title(f"{task.task}: {SHOWN[metric]}", fontsize=9, fontweight="bold", loc="left")
            axes.set_xscale("symlog", linthresh=LINEAR_TO, linscale=0.6)
            axes.set_xlim(0, max(marks) * 1.08)
            axes.set_xticks(marks, labels=[str(count) for count in marks], fontsize=8)
            axes.xaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_locator(MaxNLocator(5))
            axes.grid(axis="y", color=FAINT, linewidth=0.6)
            axes.fill_between(
                marks, figures[f"{metric}_low"], figures[f"{metric}_high"], color=colour, alpha=0.15, linewidth=0
            )
            axes.plot(marks, figures[metric], color=colour, marker="o", markersize=3.5, zorder=3)
            lines = [
                axes.axhline(
                    value, color=STYLES[task.infos[name].family][0], linewidth=0.9, linestyle="--",
                    label=f"{name} {value:.2f}",
                )
                for name, value in drawn_baselines(task, metric).items()
            ]  # fmt: skip
            axes.legend(handles=lines, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7.5, frameon=False)
    figure.supxlabel(
        f"marked texts of the task used to train Marker (band: {100 * tasks[0].params.confidence:g} % interval over "
        "draws and texts)",
        fontsize=9,
    )
