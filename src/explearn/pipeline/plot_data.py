"""The numbers of DVC's plots: one CSV a metric and task."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from explearn.core.method_names import get_info, leaderboard_order
from explearn.core.storage import write_text

PLOTTED = {"f1": "f1", "auroc": "auroc", "faithfulness": "aopc_comprehensiveness"}
"""Plot -> the metric that it shows."""

Number = int | float | None


def write_plot_data(path: Path, metric: str, task: str, methods: Mapping[str, Mapping[str, Number]]) -> None:
    """A metric of a task's methods as CSV: task, method, family, value, low, high; empty where undefined."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["task", "method", "family", "value", "low", "high"])
    for method in leaderboard_order(methods):
        values = [methods[method].get(name) for name in (metric, f"{metric}_low", f"{metric}_high")]
        writer.writerow([task, method, get_info(method).family, *values])
    write_text(path, buffer.getvalue())
