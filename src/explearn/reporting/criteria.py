"""Experiments over the criteria that an explainer trains its own classifier for: what each costs and gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explearn.reporting.columns import OWN_MODEL_COLUMNS
from explearn.reporting.heatmaps import write_gains
from explearn.reporting.markdown import Markdown
from explearn.reporting.panels import Panel
from explearn.reporting.tables import Number

CRITERIA = {
    "sim": ("simulatability", 1),
    "comp": ("aopc_comprehensiveness", 1),
    "suff": ("aopc_sufficiency", -1),
    "cons": ("consistency", 1),
}
"""Criterion -> the metric it is measured by, and 1 where larger is better, else -1."""

SMALLEST = 0.01
"""Relative gains over a figure nearer to 0 than this say nothing and are left out."""


@dataclass(frozen=True, slots=True)
class OwnModelRun:
    """What one experiment left of an explainer with a classifier of its own.

    Attributes:
        name: of the experiment.
        explainer, criteria, norm: what was trained, and for what.
        tasks: task -> the stage evaluate's entry for the explainer (reports/metrics/own_model/TASK.json).
        before: task -> test accuracy of the task's own classifier, None where unknown.
    """

    name: str
    explainer: str
    criteria: tuple[str, ...]
    norm: str
    tasks: Mapping[str, Mapping[str, Any]]
    before: Mapping[str, Number]

    def figures(self, task: str) -> Mapping[str, Number]:
        found: Mapping[str, Number] = self.tasks[task]["methods"][self.explainer]
        return found


def relative_gains(runs: Sequence[OwnModelRun]) -> tuple[list[str], NDArray[np.float64]]:
    """Average relative gain (ARG; Ye et al. 2021), in percent, (criteria, sets of criteria), and the sets' names.

    Of a set, in a criterion: (its figure - the figure of the one trained for that criterion alone) / that figure, mean
    over the tasks where both are known; positive is better. NaN where there is nothing to compare.
    """
    alone = {run.criteria[0]: run for run in runs if len(run.criteria) == 1}
    by_set = {run.criteria: run for run in runs}
    gains = np.full((len(CRITERIA), len(by_set)), np.nan)
    for row, (criterion, (metric, sign)) in enumerate(CRITERIA.items()):
        if criterion not in alone:
            continue
        base = alone[criterion]
        for column, mine in enumerate(by_set.values()):
            tasks = mine.tasks.keys() & base.tasks.keys()
            found = [gain(mine.figures(task).get(metric), base.figures(task).get(metric), sign) for task in tasks]
            if known := [value for value in found if not np.isnan(value)]:
                gains[row, column] = fmean(known)
    return ["+".join(chosen) for chosen in by_set], gains


def gain(new: Number, old: Number, sign: int) -> float:
    """Relative gain of one figure over another in percent; NaN where either is unknown or the other too near to 0."""
    if new is None or old is None or abs(old) < SMALLEST:
        return float("nan")
    return 100 * sign * (new - old) / abs(old)


def own_model_panels(folder: Path, runs: Sequence[OwnModelRun]) -> list[Panel]:
    """Tables of the runs by explainer, NORM and task; heat maps of gains are drawn into figures/ under `folder`."""
    panels = []
    for explainer, norm in dict.fromkeys((run.explainer, run.norm) for run in runs):
        of_group = [run for run in runs if (run.explainer, run.norm) == (explainer, norm)]
        for task in dict.fromkeys(task for run in of_group for task in run.tasks):
            headings = ["Experiment", "Criteria", "Accuracy", "Points", *(column.title for column in OWN_MODEL_COLUMNS)]
            rows = [_cells(run, task) for run in of_group if task in run.tasks]
            panels.append(Panel(f"{explainer}, {norm}: {task}", headings=headings, rows=rows, left=2))
        sets, gains = relative_gains(of_group)
        if np.isfinite(gains).any():
            figure = f"gains-{explainer}-{norm}.svg"
            title = "ARG over training for the criterion alone"
            write_gains(folder / "figures" / figure, title, list(CRITERIA), sets, gains)
            sentence = Markdown(
                "Average relative gain in each criterion (rows) of training for several (columns) over training for it "
                "alone, mean over the tasks; above 0 is better."
            )
            panels.append(Panel(f"{explainer}, {norm}: gains", sentence, figure=figure, alt="Average relative gains"))
        elif len(sets) > 1:
            panels.append(Panel(f"{explainer}, {norm}: gains", _no_gains(f"{explainer}, {norm}", of_group)))
    return panels


def _no_gains(name: str, runs: Sequence[OwnModelRun]) -> Markdown:
    """Why there is no heat map of gains."""
    if any(len(run.criteria) == 1 for run in runs):
        reason = f"the figures of those trained for one criterion alone are within {SMALLEST} of 0, or missing"
    else:
        reason = "none was trained for one criterion alone"
    return Markdown(f"No average relative gains for {name}: {reason}.")


def _cells(run: OwnModelRun, task: str) -> list[str]:
    accuracy = (run.tasks[task]["classifier"].get("test") or {}).get("accuracy")
    before = run.before.get(task)
    points = "–" if accuracy is None or before is None else f"{round(100 * (accuracy - before), 1) + 0.0:+.1f}"
    figures = run.figures(task)
    return [
        run.name,
        ", ".join(run.criteria),
        "–" if accuracy is None else f"{accuracy:.3f}",
        points,
        *(column.text(figures.get(column.metric)) for column in OWN_MODEL_COLUMNS),
    ]
