"""Figures of the searches for AML's loss weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from explearn.methods.aml.report import larger_is_better, study_figure
from explearn.show.figures.style import SETTINGS, save_figure
from explearn.show.task_report import TaskReport


def write_study_plots(folder: Path, tasks: Sequence[TaskReport]) -> None:
    """Draw every search for loss weights as SVG into `folder`: the metric of each trial, and the best so far."""
    for task in tasks:
        for method, notes in task.notes.items():
            if notes.get("trials"):
                _write_study(folder / study_figure(task.task, method), notes)


def _write_study(path: Path, notes: Mapping[str, Any]) -> None:
    metric = notes["metric"]
    complete = [(t["number"], t["metric"]) for t in notes["trials"] if t["state"] == "complete"]
    pruned = [(t["number"], t["metric"]) for t in notes["trials"] if t["state"] == "pruned" and t["metric"] is not None]
    choose = max if larger_is_better(metric) else min
    best = [choose(value for _, value in complete[: i + 1]) for i in range(len(complete))]
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(5.0, 2.6), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.scatter(*zip(*complete, strict=True), color="#0072B2", label="complete", zorder=3)
        if pruned:
            axes.scatter(
                *zip(*pruned, strict=True), color="#7F7F7F", marker="x", label="pruned, when it ended", zorder=3
            )
        axes.step([number for number, _ in complete], best, where="post", color="#D55E00", label="best so far")
        axes.set_xlabel("trial")
        axes.set_ylabel(f"{metric}, validation texts")
        axes.legend(frameon=False, fontsize=8)
        save_figure(figure, path)
