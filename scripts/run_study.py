"""Run the study, and publish it as reports/study.

    python scripts/run_study.py [--seeds 13 14 15 16 17] [--jobs N] [--profile NAME]   # runs and publishes
    python scripts/run_study.py --show                          # prints what is published over all seeds

A seed decides the split, the texts and all training. Each is a run of the profile `study`, which needs the hub, or of
`study_local`, which reads data/local, in a folder of its own, .study/SEED, a clone of the commit at which it began. A
run that was stopped goes on where it was; to run a newer commit, remove the folder. Another machine can make one
(`--seeds 15`): copy its folder. reports/study gets the first seed's report, figures and metrics, and
seeds.json: the means over the tasks for each seed that is done. `make study` sets threads and instructions.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from explearn.core.documents import read_json
from explearn.core.writing import write_json
from explearn_study.report.gate import read_metrics

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / ".study"
PUBLISHED = ROOT / "reports" / "study"
SEEDS = (13, 14, 15, 16, 17)
LOCAL = "data/local"
"""Folder of data sets that git does not keep."""
METRICS = ("f1_topk", "marks_human", "auroc", "aopc_comprehensiveness", "aopc_sufficiency", "mosaics")

Figures = dict[str, dict[str, float]]
"""By method, then by metric."""


def run_seed(seed: int, profile: str, more: Sequence[str]) -> None:
    """Run a profile under a seed, or what is left of it."""
    folder = RUNS / str(seed)
    if not folder.exists():
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
        if (ROOT / LOCAL).exists():
            (folder / LOCAL).symlink_to(ROOT / LOCAL)
    run = partial(subprocess.run, cwd=folder, env={**os.environ, "PYTHONPATH": str(folder / "src")}, check=True)
    run([sys.executable, "scripts/compose_params.py", f"profile={profile}", f"seed={seed}"])
    run([sys.executable, "scripts/repro.py", *more])


def means(run: Mapping[str, Any]) -> Figures:
    """Return a run's means over its tasks; a method lacks those for which it lacks a task."""
    found: Figures = {}
    for method, figures in run["overall"].items():
        found[method] = {metric: figures[metric] for metric in METRICS if figures.get(metric) is not None}
    return found


def publish(seeds: Sequence[int]) -> None:
    """Put the first seed's report, and the figures of all, into reports/study."""
    reports = RUNS / str(seeds[0]) / "reports"
    for name in ("report.md", "metrics.json"):
        shutil.copy(reports / name, PUBLISHED / name)
    shutil.copytree(reports / "figures", PUBLISHED / "figures", dirs_exist_ok=True)
    runs = [means(read_metrics(str(RUNS / str(seed)))) for seed in seeds]
    write_json(PUBLISHED / "seeds.json", dict(zip(map(str, seeds), runs, strict=True)))


def print_table(runs: Sequence[Figures]) -> None:
    """Print a Markdown table of the methods that all runs have: a figure's mean, its least and its largest."""
    print("| method | " + " | ".join(METRICS) + " |")
    print("| --- |" + " ---: |" * len(METRICS))
    for method in runs[0]:
        if all(method in run for run in runs):
            cells = []
            for metric in METRICS:
                values = [run[method][metric] for run in runs if metric in run[method]]
                if not values:
                    cells.append("–")
                    continue
                cells.append(f"{fmean(values):.3f} ({min(values):.3f} to {max(values):.3f})")
            print(f"| {method} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--jobs", metavar="N")
    parser.add_argument("--profile", default="study", choices=("study", "study_local"))
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if not options.show:
        for seed in options.seeds:
            run_seed(seed, options.profile, ["--jobs", options.jobs] if options.jobs else [])
        done = [seed for seed in SEEDS if (RUNS / str(seed) / "reports" / "report.json").exists()]
        if SEEDS[0] in done:
            publish(done)
    print_table(list(read_json(PUBLISHED / "seeds.json").values()))


if __name__ == "__main__":
    main()
