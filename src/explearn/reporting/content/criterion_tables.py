"""Experiments over the criteria that an explainer trains its own classifier for: what each costs and gains."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explearn.reporting.content.blocks import Panel
from explearn.reporting.content.columns import OWN_MODEL_COLUMNS
from explearn.reporting.content.markdown import Markdown, escape_markdown
from explearn.reporting.content.task_report import Number
from explearn.reporting.figures.heatmaps import write_gains

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
        others: all other parameters but the seed, path -> value.
    """

    name: str
    explainer: str
    criteria: tuple[str, ...]
    norm: str
    tasks: Mapping[str, Mapping[str, Any]]
    before: Mapping[str, Number]
    others: Mapping[str, Any] = field(default_factory=dict)

    @property
    def chosen(self) -> tuple[str, ...]:
        """The criteria in the order of CRITERIA."""
        return tuple(criterion for criterion in CRITERIA if criterion in self.criteria)

    def figures(self, task: str) -> Mapping[str, Number]:
        found: Mapping[str, Number] = self.tasks[task]["methods"][self.explainer]
        return found


def relative_gains(runs: Sequence[OwnModelRun]) -> tuple[list[str], NDArray[np.float64]]:
    """Average relative gain (ARG; Ye et al. 2021), in percent, (criteria, sets of criteria), and the sets' names.

    Of a set, in a criterion: (its figure - the figure of the one trained for that criterion alone) / that figure, mean
    over the tasks where both are known; positive is better. NaN where there is nothing to compare. Runs for the same
    criteria, in whatever order, are repetitions: their mean is taken, as many as know the figure. The sets are in the
    order of their size, then of CRITERIA.
    """
    by_set: dict[tuple[str, ...], list[OwnModelRun]] = defaultdict(list)
    for run in runs:
        by_set[run.chosen].append(run)
    names = list(CRITERIA)
    sets = sorted(by_set, key=lambda chosen: (len(chosen), [names.index(criterion) for criterion in chosen]))
    gains = np.full((len(CRITERIA), len(sets)), np.nan)
    for row, (criterion, (metric, sign)) in enumerate(CRITERIA.items()):
        base = _means(by_set.get((criterion,), []), metric)
        for column, chosen in enumerate(sets):
            mine = _means(by_set[chosen], metric)
            found = [gain(mine[task], base[task], sign) for task in sorted(mine.keys() & base.keys())]
            if known := [value for value in found if not np.isnan(value)]:
                gains[row, column] = fmean(known)
    return ["+".join(chosen) for chosen in sets], gains


def _means(runs: Sequence[OwnModelRun], metric: str) -> dict[str, float]:
    """Mean over runs of a figure on each task; tasks where none knows it are left out."""
    found: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        for task in run.tasks:
            if (value := run.figures(task).get(metric)) is not None:
                found[task].append(value)
    return {task: fmean(values) for task, values in found.items()}


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
        panels += _gain_panels(folder, f"{explainer}, {norm}", f"gains-{explainer}-{norm}", of_group)
    return panels


def _gain_panels(folder: Path, name: str, figure: str, runs: Sequence[OwnModelRun]) -> list[Panel]:
    """A heat map of gains for each choice of the other parameters, or why there is none."""
    groups: dict[str, list[OwnModelRun]] = defaultdict(list)
    for run in runs:
        groups[json.dumps(run.others, sort_keys=True)].append(run)
    compared = [
        (of_group, sets, gains)
        for _, of_group in sorted(groups.items())
        for sets, gains in [relative_gains(of_group)]
        if len(sets) > 1 and np.isfinite(gains).any()
    ]
    if not compared:
        many = len({run.chosen for run in runs}) > 1
        return [Panel(f"{name}: gains", _no_gains(name, list(groups.values())))] if many else []
    panels = []
    for number, (of_group, sets, gains) in enumerate(compared, start=1):
        file = f"{figure}.svg" if number == 1 else f"{figure}-{number}.svg"
        title = "ARG over training for the criterion alone"
        write_gains(folder / "figures" / file, title, list(CRITERIA), sets, gains)
        sentence = (
            "Average relative gain in each criterion (rows) of training for several (columns) over training for it "
            "alone, mean over the tasks; above 0 is better."
        )
        if len(of_group) > len(sets):
            sentence += " Of experiments for the same criteria, which differ in the seed alone, the mean is taken."
        if len(groups) > 1:
            listed = ", ".join(escape_markdown(run.name) for run in of_group)
            sentence += f" Compared here: {listed}, which have all other parameters in common."
        panels.append(Panel(f"{name}: gains", Markdown(sentence), figure=file, alt="Average relative gains"))
    return panels


def _no_gains(name: str, groups: Sequence[Sequence[OwnModelRun]]) -> Markdown:
    """Why there is no heat map of gains; a group has all other parameters in common."""
    with_single = [runs for runs in groups if any(len(run.criteria) == 1 for run in runs)]
    if not with_single:
        reason = "none was trained for one criterion alone"
    elif all(len({run.chosen for run in runs}) == 1 for runs in with_single):
        reason = "those trained for one criterion alone differ from the others in further parameters"
    else:
        reason = f"the figures of those trained for one criterion alone are within {SMALLEST} of 0, or missing"
    return Markdown(f"No average relative gains for {name}: {reason}.")


def _cells(run: OwnModelRun, task: str) -> list[str]:
    accuracy = (run.tasks[task]["classifier"].get("test") or {}).get("accuracy")
    before = run.before.get(task)
    points = "–" if accuracy is None or before is None else f"{round(100 * (accuracy - before), 1) + 0.0:+.1f}"
    figures = run.figures(task)
    untrained = run.tasks[task].get("best_epoch") == 0
    return [
        run.name,
        ", ".join(run.criteria) + (" (not trained: no epoch was better than the start)" if untrained else ""),
        "–" if accuracy is None else f"{accuracy:.3f}",
        points,
        *(column.text(figures.get(column.metric)) for column in OWN_MODEL_COLUMNS),
    ]
