"""Experiments that train an explainer's own classifier for different criteria: what each choice costs and gains."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explearn.reporting.content.blocks import Block
from explearn.reporting.content.columns import OWN_MODEL_COLUMNS
from explearn.reporting.content.gains import CRITERIA, SMALLEST, GainMap, gain
from explearn.reporting.content.markdown import Markdown, escape_markdown
from explearn.reporting.content.task_report import Number


@dataclass(frozen=True, slots=True)
class OwnModelRun:
    """One experiment's results for an explainer with a classifier of its own.

    Attributes:
        name: of the experiment.
        explainer, criteria, norm: what was trained, and for which criteria.
        tasks: task -> the stage evaluate's entry for the explainer (reports/metrics/own_model/TASK.json).
        before: task -> test accuracy of the task's own classifier, None where unknown.
        others: all other parameters except the seed, path -> value.
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
    """Names of the sets of criteria, and their average relative gains in percent (ARG; Ye et al. 2021).

    The gain of a set in a criterion is (its figure - figure of training for that criterion alone) / that figure, mean
    over the tasks where both are known; positive is better. Runs for the same criteria, in any order, are repetitions:
    their mean is taken over those that have the figure. The sets are ordered by size, then as in CRITERIA.

    Returns the names and an array (criteria, sets), NaN where there is nothing to compare.
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
    """Mean of a figure over the runs, task by task; tasks where no run has it are left out."""
    found: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        for task in run.tasks:
            if (value := run.figures(task).get(metric)) is not None:
                found[task].append(value)
    return {task: fmean(values) for task, values in found.items()}


def criterion_blocks(runs: Sequence[OwnModelRun]) -> tuple[list[Block], list[GainMap]]:
    """Tables of the runs by explainer, NORM and task, and heat maps of the gains, to be drawn into figures/."""
    blocks: list[Block] = []
    maps: list[GainMap] = []
    for explainer, norm in dict.fromkeys((run.explainer, run.norm) for run in runs):
        of_group = [run for run in runs if (run.explainer, run.norm) == (explainer, norm)]
        for task in dict.fromkeys(task for run in of_group for task in run.tasks):
            headings = ["Experiment", "Criteria", "Accuracy", "Points", *(column.title for column in OWN_MODEL_COLUMNS)]
            rows = [_cells(run, task) for run in of_group if task in run.tasks]
            blocks.append(Block(f"{explainer}, {norm}: {task}", headings=headings, rows=rows, left=2))
        shown, drawn = _gain_blocks(f"{explainer}, {norm}", f"gains-{explainer}-{norm}", of_group)
        blocks += shown
        maps += drawn
    return blocks, maps


def _gain_blocks(name: str, figure: str, runs: Sequence[OwnModelRun]) -> tuple[list[Block], list[GainMap]]:
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
        return ([Block(f"{name}: gains", _no_gains(name, list(groups.values())))] if many else []), []
    blocks, maps = [], []
    for number, (of_group, sets, gains) in enumerate(compared, start=1):
        file = f"{figure}.svg" if number == 1 else f"{figure}-{number}.svg"
        maps.append(GainMap(file, "ARG over training for the criterion alone", list(CRITERIA), sets, gains))
        sentence = (
            "Average relative gain (ARG) in each criterion (rows) of training for several criteria (columns) over "
            "training for that one alone, mean over the tasks. Above 0 is better."
        )
        if len(of_group) > len(sets):
            sentence += " Experiments for the same criteria, which differ in the seed alone, count as their mean."
        if len(groups) > 1:
            listed = ", ".join(escape_markdown(run.name) for run in of_group)
            sentence += f" Compared here: {listed}. All their other parameters are the same."
        blocks.append(Block(f"{name}: gains", Markdown(sentence), figure=file, alt="Average relative gains"))
    return blocks, maps


def _no_gains(name: str, groups: Sequence[Sequence[OwnModelRun]]) -> Markdown:
    """Why there is no heat map of gains. The runs of a group share all other parameters."""
    with_single = [runs for runs in groups if any(len(run.criteria) == 1 for run in runs)]
    if not with_single:
        reason = "no experiment was trained for one criterion alone"
    elif all(len({run.chosen for run in runs}) == 1 for runs in with_single):
        reason = "the experiments trained for one criterion alone differ from the others in further parameters"
    else:
        reason = f"the figures of training for one criterion alone are within {SMALLEST} of 0, or missing"
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
