"""The report's section on a language model's own reasons, and whether they can be trusted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explearn.core.arrays import Array
from explearn.methods.results import RunFacts, TaskReport
from explearn.metrics.arrays import mean_where_defined
from explearn.metrics.params import EvaluateParams
from explearn.metrics.reasons import METHOD, METRICS, judge_trust
from explearn.metrics.significance import FEWEST_TEXTS, mean_interval, signed_rank_test
from explearn.show.blocks import Block, Heading, Paragraph, Table, bold, columns, figure

VERDICTS = {
    "trusted": "The model's own reasons can be trusted on these texts",
    "not trusted": "The model's own reasons cannot be trusted on these texts",
    "undecided": "It is undecided whether the model's own reasons can be trusted on these texts",
}


def trust_sentence(run: RunFacts, tasks: Sequence[TaskReport]) -> str:
    """Return the verdict on the model's own reasons; empty if they were not judged."""
    values = _by_metric(tasks)
    if not values:
        return ""
    margin = values["reason_margin"]
    gain = values["reason_gain"]
    more = "more" if margin.mean() >= 0 else "less"
    better = "better" if gain.mean() >= 0 else "worse"
    sentence = (
        f"{bold(VERDICTS[judge_trust(margin, gain, run.evaluate)])}: without the {run.unit}s that they name, the "
        f"answer's probability falls by {figure(abs(margin.mean()))} {more} than without as many others (p = "
        f"{signed_rank_test(margin[None])[0]:.2g}), and a second model that knows them predicts the answers to changed "
        f"texts {better} by {figure(abs(gain.mean()))} (interval of the gain: {_interval(gain, run.evaluate)})"
    )
    if len(gain) < FEWEST_TEXTS:
        sentence += f"; {len(gain)} texts are too few, {FEWEST_TEXTS} the fewest"
    empty = int(values["reason_empty"].sum())
    if empty:
        sentence += f"; {empty} of {len(gain)} reasons quote no {run.unit} of their text"
    return f"{sentence}."


def report(run: RunFacts, tasks: Sequence[TaskReport]) -> list[Block]:
    """Return the verdict, and the figures behind it; nothing if the reasons were not judged."""
    values = _by_metric(tasks)
    if not values:
        return []
    rows = []
    for metric in METRICS:
        array = values.get(metric.name)
        if array is None:
            continue
        p_value = "–"
        if metric.lowest == -1:
            p_value = f"{signed_rank_test(array[None])[0]:.2g}"
        meaning = metric.summary.format(unit=run.unit)
        rows.append([metric.title, meaning, figure(mean_where_defined(array)), _interval(array, run.evaluate), p_value])
    heads = columns(["Measure", "Meaning"], ["Mean", f"{100 * run.evaluate.confidence:g} % interval", "p"])
    return [
        Heading("The model's own reasons"),
        Paragraph(trust_sentence(run, tasks)),
        Table(heads, rows, f"{METHOD}: what the named {run.unit}s are worth (p: Wilcoxon's test against 0)"),
    ]


def _by_metric(tasks: Sequence[TaskReport]) -> dict[str, Array]:
    """Return the values of all tasks' texts by metric; empty if the reasons were not judged."""
    judged = [task.by_text for task in tasks if METHOD in task.by_text.get(METRICS[0].by_text, {})]
    values = {}
    for metric in METRICS:
        arrays = [by_text[metric.by_text][METHOD] for by_text in judged if metric.by_text in by_text]
        if arrays:
            values[metric.name] = np.concatenate(arrays)
    return values


def _interval(values: Array, params: EvaluateParams) -> str:
    """Return the interval of a mean; a dash if there are too few texts."""
    known = values[~np.isnan(values)]
    if len(known) < FEWEST_TEXTS:
        return "–"
    low, high = mean_interval(known, params.confidence, -1.0, 1.0)
    return f"{low:.2f} to {high:.2f}"
