"""What README claims, under other seeds.

    for seed in 14 15 16 17; do
        dvc exp run --temp -S profile=seeds -S roster=quick -S seed=$seed
    done
    python benchmarks/seeds.py . $(dvc exp list --sha-only) --out benchmarks/seeds.json

Without a run it shows the published figures, benchmarks/seeds.json. A run is a project folder, a git revision or a
metrics.json; `.` is the default run, whose seed is 13. Takes the methods that all runs have. Writes each run's figures,
means over its tasks, and prints a Markdown table: a figure's mean over the runs, then its least and its largest.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from explearn.core.documents import read_json
from explearn.core.writing import write_json
from explearn_study.report.gate import read_metrics

PUBLISHED = Path(__file__).with_name("seeds.json")
METRICS = ("f1_topk", "auroc", "aopc_comprehensiveness", "aopc_sufficiency", "mosaics")

Figures = dict[str, dict[str, float]]
"""By method, then by metric."""


def means(run: Mapping[str, Any]) -> Figures:
    """Return the means over a run's tasks."""
    tasks = list(run["tasks"].values())
    found: Figures = {}
    for method in tasks[0]:
        found[method] = {}
        for metric in METRICS:
            found[method][metric] = round(fmean([task[method][metric] for task in tasks]), 4)
    return found


def with_common_methods(runs: Sequence[Figures]) -> list[Figures]:
    """Keep the methods that all runs have, in the order of the first."""
    common = set(runs[0]).intersection(*runs)
    kept = []
    for run in runs:
        kept.append({method: run[method] for method in runs[0] if method in common})
    return kept


def print_table(runs: Sequence[Figures]) -> None:
    print("| method | " + " | ".join(METRICS) + " |")
    print("| --- |" + " ---: |" * len(METRICS))
    for method in runs[0]:
        cells = []
        for metric in METRICS:
            values = [run[method][metric] for run in runs]
            cells.append(f"{fmean(values):.3f} ({min(values):.3f} to {max(values):.3f})")
        print(f"| {method} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", metavar="RUN")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    runs = read_json(PUBLISHED)
    if options.runs:
        runs = with_common_methods([means(read_metrics(run)) for run in options.runs])
    print_table(runs)
    if options.out is not None:
        write_json(options.out, runs)


if __name__ == "__main__":
    main()
