"""One page for a queue of experiments with explainers that train their own classifier: criteria, costs, gains."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from explearn.data.storage import write_text
from explearn.errors import DataError
from explearn.reporting.heatmaps import write_gains
from explearn.reporting.markdown import escape_markdown
from explearn.reporting.tables import OWN_MODEL_COLUMNS, Number

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
class Experiment:
    """What one run left of an explainer with a classifier of its own.

    Attributes:
        name: of the experiment, or `workspace`.
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


def read_experiments(root: Path) -> list[Experiment]:
    """Those of DVC's experiments on the current commit, and the workspace, that trained such explainers.

    Raises DataError where `root` is no DVC project, or none of its experiments has such results.
    """
    import dvc.api
    from dvc.exceptions import DvcException

    try:
        rows = dvc.api.exp_show(repo=os.fspath(root))
        found = []
        for row in rows:
            rev = row.get("rev")
            name = str(row.get("Experiment") or rev)

            def read(path: str, rev: Any = None if rev == "workspace" else rev) -> str | None:
                try:
                    return str(dvc.api.read(path, repo=os.fspath(root), rev=rev))
                except (DvcException, OSError):
                    return None

            found += _of_run(name, read)
    except DvcException as error:
        raise DataError(f"{root}: not a project whose experiments can be read ({error})") from error
    if not found:
        raise DataError(f"{root}: no experiment has reports/metrics/own_model; run some with ivra or smat first")
    return found


def _of_run(name: str, read: Any) -> list[Experiment]:
    """The experiments of one revision, whose files `read` gives as text, or None."""
    text = read("params.yaml")
    if text is None:
        return []
    params = yaml.safe_load(text)
    tasks, before = {}, {}
    for task in params["tasks"]:
        results, classifier = (read(f"reports/metrics/{kind}/{task}.json") for kind in ("own_model", "classifier"))
        if results is not None:
            tasks[task] = json.loads(results)
            test = (json.loads(classifier) if classifier else {}).get("test") or {}
            before[task] = test.get("accuracy")
    names = dict.fromkeys(explainer for found in tasks.values() for explainer in found)
    return [
        Experiment(
            name=name,
            explainer=explainer,
            criteria=tuple(params[explainer]["criteria"]),
            norm=params[explainer]["norm"],
            tasks={task: found[explainer] for task, found in tasks.items() if explainer in found},
            before=before,
        )
        for explainer in names
    ]


def relative_gains(experiments: Sequence[Experiment]) -> tuple[list[str], NDArray[np.float64]]:
    """Average relative gain (ARG; Ye et al. 2021), in percent, (criteria, sets of criteria), and the sets' names.

    Of a set, in a criterion: (its figure - the figure of the one trained for that criterion alone) / that figure, mean
    over the tasks where both are known; positive is better. NaN where there is nothing to compare.
    """
    alone = {e.criteria[0]: e for e in experiments if len(e.criteria) == 1}
    sets = list(dict.fromkeys(e.criteria for e in experiments))
    by_set = {e.criteria: e for e in experiments}
    gains = np.full((len(CRITERIA), len(sets)), np.nan)
    for row, (criterion, (metric, sign)) in enumerate(CRITERIA.items()):
        for column, chosen in enumerate(sets):
            if criterion not in alone:
                continue
            mine, base = by_set[chosen], alone[criterion]
            values = []
            for task in mine.tasks:
                if task not in base.tasks:
                    continue
                new, old = mine.figures(task).get(metric), base.figures(task).get(metric)
                if new is not None and old is not None and abs(old) >= SMALLEST:
                    values.append(100 * sign * (new - old) / abs(old))
            if values:
                gains[row, column] = fmean(values)
    return ["+".join(chosen) for chosen in sets], gains


def write_experiments(folder: Path, experiments: Sequence[Experiment]) -> Path:
    """Write experiments.md into `folder`, and its heat maps under figures/; returns the page's path."""
    lines = [
        "# Experiments with explainers that train their own classifier",
        "",
        "Every row is one run. *Points* is what training for the criteria did to the test accuracy of the task's "
        "classifier. All metrics are the explainer's on its own classifier; arrows say which way is better.",
    ]
    groups = dict.fromkeys((e.explainer, e.norm) for e in experiments)
    for explainer, norm in groups:
        of_group = [e for e in experiments if (e.explainer, e.norm) == (explainer, norm)]
        lines += ["", f"## {escape_markdown(explainer)}, {norm}"]
        for task in dict.fromkeys(task for e in of_group for task in e.tasks):
            heads = ["Run", "Criteria", "Accuracy", "Points", *(column.title for column in OWN_MODEL_COLUMNS)]
            lines += [
                "",
                f"### {escape_markdown(task)}",
                "",
                _row(heads),
                _row(["---"] * 2 + ["---:"] * (len(heads) - 2)),
            ]
            lines += [_row(_cells(e, task)) for e in of_group if task in e.tasks]
        sets, gains = relative_gains(of_group)
        if np.isfinite(gains).any():
            path = folder / "figures" / f"gains-{explainer}-{norm}.svg"
            write_gains(path, "ARG over training for the criterion alone", list(CRITERIA), sets, gains)
            lines += [
                "",
                "Average relative gain in each criterion (rows) of training for several (columns) over training for it "
                "alone, mean over the tasks; above 0 is better.",
                "",
                f"![Average relative gains](figures/{path.name})",
            ]
    write_text(folder / "experiments.md", "\n".join(lines) + "\n")
    return folder / "experiments.md"


def _cells(experiment: Experiment, task: str) -> list[str]:
    accuracy = (experiment.tasks[task]["classifier"].get("test") or {}).get("accuracy")
    before = experiment.before.get(task)
    points = "–" if accuracy is None or before is None else f"{round(100 * (accuracy - before), 1) + 0.0:+.1f}"
    figures = experiment.figures(task)
    return [
        str(escape_markdown(experiment.name)),
        ", ".join(experiment.criteria),
        "–" if accuracy is None else f"{accuracy:.3f}",
        points,
        *(column.text(figures.get(column.metric)) for column in OWN_MODEL_COLUMNS),
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
