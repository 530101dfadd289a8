"""What the report says of methods that watch a metric: how pAML was trained, and what fAML chose its maps by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from explearn.core.storage import atomic_path
from explearn.metrics.catalogue import METRICS
from explearn.reporting.content.blocks import Panel
from explearn.reporting.content.markdown import Markdown, escape_markdown
from explearn.reporting.content.task_report import Number, TaskReport
from explearn.reporting.figures.bars import SETTINGS

SHOWN_TRIALS = 10
"""Trials of a search in the report's table, the best first; the figure shows all."""

_DIFFERENCES = {
    "difference": "comprehensiveness - sufficiency",
    "aopc_difference": "aopc_comprehensiveness - aopc_sufficiency",
}


def remarks(task: TaskReport) -> list[Panel]:
    """Remarks on the methods of a task, from their notes (`explearn.methods.base.explainer.Explainer.notes`)."""
    found = []
    for method, notes in task.notes.items():
        if "epochs" in notes:
            found += _training(task, method, notes)
        if "judged" in notes:
            found.append(_refinement(task, method, notes))
    return found


def write_study_plots(folder: Path, tasks: Sequence[TaskReport]) -> None:
    """Draw every search for weights as SVG into `folder`: the metric of each trial, and the best so far."""
    for task in tasks:
        for method, notes in task.notes.items():
            if notes.get("trials"):
                _write_study(folder / study_figure(task.task, method), notes)


def study_figure(task: str, method: str) -> str:
    return f"study-{task}-{method}.svg"


def _training(task: TaskReport, method: str, notes: Mapping[str, Any]) -> list[Panel]:
    name, metric = escape_markdown(method), notes["metric"]
    values = [epoch["metric"] for epoch in notes["epochs"]]
    best = _best(values, metric)
    weights = ", ".join(f"{key} {value:.2f}" for key, value in notes["weights"].items())
    trials = notes["trials"]
    told = sum(trial["state"] != "failed" for trial in trials)
    source = f"the best of {told} trials" if trials else "given"
    if best:
        sentence = Markdown(
            f"**{name}** was trained with the loss weights {weights} ({source}). On the validation texts its "
            f"{_named(metric)} was {values[0]:.3f} before training and {values[best]:.3f} after epoch {best} of "
            f"{len(values) - 1}, which is the one that was kept."
        )
    else:
        sentence = Markdown(
            f"**Not trained:** {name} is the model as it was before training. Of {len(values) - 1} epochs with the "
            f"loss weights {weights} ({source}) none was better on the validation texts than the start, whose "
            f"{_named(metric)} was {values[0]:.3f}."
        )
    if not trials:
        return [Panel(f"How {method} was trained: {task.task}", sentence)]
    order = sorted(trials, key=lambda trial: _sort_key(trial, metric))
    rows = [
        [
            Markdown(str(trial["number"])),
            *(Markdown(f"{trial[key]:.2f}") for key in ("prediction_weight", "size_weight", "inverse_weight")),
            _number(trial["metric"]),
            Markdown(trial["state"]),
        ]
        for trial in order[:SHOWN_TRIALS]
    ]
    headings = [Markdown(h) for h in ("Trial", "Prediction", "Size", "Inverse", escape_markdown(metric), "State")]
    said = Markdown(f"{sentence} The {len(rows)} best trials of the search:")
    return [
        Panel(
            f"Search for {method}'s weights: {task.task}",
            said,
            headings,
            rows,
            figure=study_figure(task.task, method),
            alt="Metric of every trial of the search",
        )
    ]


def _refinement(task: TaskReport, method: str, notes: Mapping[str, Any]) -> Panel:
    name, metric = escape_markdown(method), notes["optimised_for"]
    passes = ""
    metrics = task.methods.get(method, {})
    forward, backward = metrics.get("forward_passes"), metrics.get("backward_passes")
    if forward is not None and backward is not None:
        passes = f", with {forward:,.0f} forward and {backward:,.0f} backward passes through the classifier a text"
    sentence = (
        f"**{name} looks at the metric while it explains.** It took {notes['steps']:.1f} steps a text and kept, of all "
        f"maps that it tried, the one that is best by {_named(metric)} on this very text{passes}. Read its figures "
        "above with that in mind."
    )
    title = f"What {method} looks at: {task.task}"
    judged = notes["judged"]
    columns = list(judged)
    if len(columns) < 2:
        return Panel(title, Markdown(sentence))
    rows = [[escape_markdown(by), *(_number(judged[by][column]) for column in columns)] for by in columns]
    headings = [Markdown("Map chosen by"), *(Markdown(f"{escape_markdown(c)} {_arrow(c)}") for c in columns)]
    said = f"{sentence} The same maps of the same steps, chosen by one metric (row) and judged by another (column):"
    return Panel(title, Markdown(said), headings, rows)


def _larger_is_better(metric: str) -> bool:
    return metric in _DIFFERENCES or METRICS[metric].larger_is_better


def _arrow(metric: str) -> str:
    return "↑" if _larger_is_better(metric) else "↓"


def _named(metric: str) -> Markdown:
    name, described = escape_markdown(metric), _DIFFERENCES.get(metric)
    return Markdown(name if described is None else f"{name} ({escape_markdown(described)})")


def is_untrained(notes: Mapping[str, Any]) -> bool:
    """Whether these notes are of a training of which no epoch was better than the start."""
    return "epochs" in notes and _best([epoch["metric"] for epoch in notes["epochs"]], notes["metric"]) == 0


def _best(values: Sequence[float], metric: str) -> int:
    """Index of the best value, the first of equals."""
    return values.index(max(values) if _larger_is_better(metric) else min(values))


def _sort_key(trial: Mapping[str, Any], metric: str) -> tuple[bool, bool, float, int]:
    value = trial["metric"]
    sign = -1 if _larger_is_better(metric) else 1
    return trial["state"] != "complete", value is None, sign * value if value is not None else 0.0, trial["number"]


def _number(value: Number) -> Markdown:
    return Markdown("–" if value is None else f"{round(value, 3) + 0.0:.3f}")


def _write_study(path: Path, notes: Mapping[str, Any]) -> None:
    metric = notes["metric"]
    complete = [(t["number"], t["metric"]) for t in notes["trials"] if t["state"] == "complete"]
    pruned = [(t["number"], t["metric"]) for t in notes["trials"] if t["state"] == "pruned" and t["metric"] is not None]
    choose = max if _larger_is_better(metric) else min
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
        with atomic_path(path) as partial:
            figure.savefig(partial, format="svg", metadata={"Date": None})
