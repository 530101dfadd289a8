"""What the report says about AML's methods: how pAML was trained, and by which metric fAML chose its maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explearn.judge.catalogue import METRICS
from explearn.show.blocks import Block
from explearn.show.markdown import Markdown, escape_markdown
from explearn.show.task_report import Number, TaskReport

SHOWN_TRIALS = 10
"""How many trials of a search the report's table shows, the best first. The figure shows all."""

_DIFFERENCES = {
    "difference": "comprehensiveness - sufficiency",
    "aopc_difference": "aopc_comprehensiveness - aopc_sufficiency",
}


def aml_blocks(task: TaskReport) -> list[Block]:
    """Blocks on the methods of a task, from their notes (`explearn.methods.base.explainer.Explainer.notes`)."""
    found = []
    for method, notes in task.notes.items():
        if "epochs" in notes:
            found += _training(task, method, notes)
        if "judged" in notes:
            found.append(_refinement(task, method, notes))
    return found


def study_figure(task: str, method: str) -> str:
    """File name of the figure of a search for loss weights."""
    return f"study-{task}-{method}.svg"


def _training(task: TaskReport, method: str, notes: Mapping[str, Any]) -> list[Block]:
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
            f"{len(values) - 1}, which was kept."
        )
    else:
        sentence = Markdown(
            f"**Not trained:** {name} is the model as it was before training. With the loss weights {weights} "
            f"({source}), none of {len(values) - 1} epochs was better on the validation texts than the start, whose "
            f"{_named(metric)} was {values[0]:.3f}."
        )
    if not trials:
        return [Block(f"How {method} was trained: {task.task}", sentence)]
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
        Block(
            f"Search for {method}'s weights: {task.task}",
            said,
            headings,
            rows,
            figure=study_figure(task.task, method),
            alt="Metric of every trial of the search",
        )
    ]


def _refinement(task: TaskReport, method: str, notes: Mapping[str, Any]) -> Block:
    name, metric = escape_markdown(method), notes["optimised_for"]
    passes = ""
    metrics = task.methods.get(method, {})
    forward, backward = metrics.get("forward_passes"), metrics.get("backward_passes")
    if forward is not None and backward is not None:
        passes = f" It made {forward:,.0f} forward and {backward:,.0f} backward passes through the classifier per text."
    sentence = (
        f"**{name} looks at the metric while it explains.** It took {notes['steps']:.1f} steps per text. Of all maps "
        f"that it tried, it kept the one that is best by {_named(metric)} on that same text.{passes} Read its figures "
        "above with that in mind."
    )
    title = f"What {method} looks at: {task.task}"
    judged = notes["judged"]
    columns = list(judged)
    if len(columns) < 2:
        return Block(title, Markdown(sentence))
    rows = [[escape_markdown(by), *(_number(judged[by][column]) for column in columns)] for by in columns]
    headings = [Markdown("Map chosen by"), *(Markdown(f"{escape_markdown(c)} {_arrow(c)}") for c in columns)]
    said = f"{sentence} Below, maps from the same steps are chosen by one metric (row) and judged by another (column):"
    return Block(title, Markdown(said), headings, rows)


def larger_is_better(metric: str) -> bool:
    """Direction of a metric that AML trains for or chooses by."""
    return metric in _DIFFERENCES or METRICS[metric].larger_is_better


def _arrow(metric: str) -> str:
    return "↑" if larger_is_better(metric) else "↓"


def _named(metric: str) -> Markdown:
    name, described = escape_markdown(metric), _DIFFERENCES.get(metric)
    return Markdown(name if described is None else f"{name} ({escape_markdown(described)})")


def is_untrained(notes: Mapping[str, Any]) -> bool:
    """Whether these notes tell of a training in which no epoch was better than the start."""
    return "epochs" in notes and _best([epoch["metric"] for epoch in notes["epochs"]], notes["metric"]) == 0


def _best(values: Sequence[float], metric: str) -> int:
    """Index of the best value, the first where several are equal."""
    return values.index(max(values) if larger_is_better(metric) else min(values))


def _sort_key(trial: Mapping[str, Any], metric: str) -> tuple[bool, bool, float, int]:
    value = trial["metric"]
    sign = -1 if larger_is_better(metric) else 1
    return trial["state"] != "complete", value is None, sign * value if value is not None else 0.0, trial["number"]


def _number(value: Number) -> Markdown:
    return Markdown("–" if value is None else f"{round(value, 3) + 0.0:.3f}")
