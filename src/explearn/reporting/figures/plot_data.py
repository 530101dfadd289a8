"""Which figures show a metric for each task and method, and the same numbers as CSV for DVC's plots."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from explearn.core.method_names import get_info
from explearn.core.storage import write_text
from explearn.reporting.content.task_report import Number, leaderboard_order


@dataclass(frozen=True, slots=True)
class PlotSpec:
    """A figure of one metric.

    Attributes:
        name: of its files. metric: what it shows.
        low, high: metrics that hold the bounds of the interval; None where there is none.
        label: of the axis. chance: value of random scores; None where that is not known.
    """

    name: str
    metric: str
    low: str | None
    high: str | None
    label: str
    chance: float | None


F1_PLOT = PlotSpec("f1", "f1", "f1_low", "f1_high", "F1 (line: {confidence:g} % interval)", None)
AUROC_PLOT = PlotSpec(
    "auroc", "auroc", "auroc_low", "auroc_high", "AUROC (line: {confidence:g} % interval, dashed: 0.5, by chance)", 0.5
)
FAITHFULNESS_PLOT = PlotSpec(
    "faithfulness",
    "aopc_comprehensiveness",
    "aopc_comprehensiveness_low",
    "aopc_comprehensiveness_high",
    "AOPC comprehensiveness (line: {confidence:g} % interval)",
    None,
)


def write_plot_data(path: Path, spec: PlotSpec, task: str, methods: Mapping[str, Mapping[str, Number]]) -> None:
    """Write a task's numbers as CSV: task, method, family, value, low, high; empty where undefined."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["task", "method", "family", "value", "low", "high"])
    for method in leaderboard_order(methods):
        metrics = methods[method]
        bounds = [metrics.get(name) if name else None for name in (spec.low, spec.high)]
        writer.writerow([task, method, get_info(method).family, metrics.get(spec.metric), *bounds])
    write_text(path, buffer.getvalue())
