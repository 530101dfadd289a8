"""Ten texts that `explearn annotate next` proposes against ten drawn at random, on texts whose marks are known.

    python benchmarks/next_texts.py [--root .] [--tasks reviews,sst2] [--marks 10] [--draws 5] [--trainings 2]

`--root` is a workspace after the stages prepare, rationalise, finetune, attend and signals, whose parameters name
several tasks. For each draw, half of a task's marked training texts are there to be chosen from, drawn at random; ten
of them are proposed as if nobody had marked them, and ten drawn. expnet_few_shot learns from either, with the same
seeds, and is judged on the test texts as in the stage marks-curve. Prints F1 with the top K and AUROC of each, means
over the draws, and the mean difference with its standard error over draws.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from explearn.core.compute import ComputeOptions
from explearn.core.storage import read_json
from explearn.introspection.representations import aggregate_states
from explearn.methods.expnet.targets import marked_lessons, read_sources
from explearn.metrics.marks_curve import judge_draws
from explearn.metrics.plausibility import rationale_k
from explearn.pipeline.base.params import Params, load_params
from explearn.pipeline.base.workspace import Workspace
from explearn.pipeline.marks_curve import KeptTask, trained
from explearn.pipeline.next_texts import doubts_of, spread_out


def compare(workspace: Workspace, params: Params, name: str, marks: int, draws: int, trainings: int) -> None:
    task = KeptTask(workspace, params, name, ComputeOptions())
    examples = {example.id: example for example in task.examples()}
    source, rows = task.features("test")
    tested = [row for row in rows if row.example_id in task.gold and row.predicted == examples[row.example_id].label]
    gold = [np.asarray(task.gold[row.example_id], dtype=np.bool_) for row in tested]
    k = rationale_k(read_json(workspace.agreement(name))["mean_length"])
    sources = read_sources(task, "few_shot", params.seed)
    covered = {text.example_id for text in sources.texts if text.read.any()}
    known = sorted(covered & set(marked_lessons(task)))
    encodings = task.classifier.encode([examples[i] for i in known])
    states = aggregate_states(task.classifier, encodings)
    by_doubt = doubts_of(task, params, sources, (), known)
    doubts = np.array([by_doubt[i] for i in known])
    figures: dict[str, list[tuple[float, float]]] = {"random": [], "proposed": []}
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        half = np.sort(rng.choice(len(known), len(known) // 2, replace=False))
        picked = {
            "random": [known[i] for i in rng.choice(half, marks, replace=False)],
            "proposed": [known[half[i]] for i in spread_out(doubts[half], states[half], marks, draw)],
        }
        for way, ids in picked.items():
            scores = []
            for seed in range(trainings):
                expnet = trained(task, params, "few_shot", marks, seed, sources, chosen=ids)
                scores.append([expnet.score_features(row, source, len(task.gold[row.example_id])) for row in tested])
            found = judge_draws(scores, gold, k, "expected_f1", 100, 0.95, 0)
            figures[way].append((found["f1_topk"], found["auroc"]))
        shown = ", ".join(f"{way} {found[-1][0]:.3f}/{found[-1][1]:.3f}" for way, found in figures.items())
        print(f"{name}, draw {draw}: {shown}", flush=True)
    means = {way: np.array(found) for way, found in figures.items()}
    gains = means["proposed"] - means["random"]
    print(
        f"{name}: {len(known)} marked texts to choose from, {len(tested)} test texts; F1 top-K/AUROC: "
        + "; ".join(f"{way} {'/'.join(f'{v:.3f}' for v in found.mean(0))}" for way, found in means.items())
        + f"; difference {gains[:, 0].mean():+.3f} ± {gains[:, 0].std(ddof=1) / np.sqrt(draws):.3f}"
        + f" / {gains[:, 1].mean():+.3f} ± {gains[:, 1].std(ddof=1) / np.sqrt(draws):.3f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--tasks", help="comma-separated (default: all of the run)")
    parser.add_argument("--marks", type=int, default=10)
    parser.add_argument("--draws", type=int, default=5, help="two or more")
    parser.add_argument("--trainings", type=int, default=2, help="seeds of a training on each ten")
    options = parser.parse_args()
    params = load_params(options.root / "params.yaml")
    for name in options.tasks.split(",") if options.tasks else params.tasks:
        compare(Workspace(options.root), params, name, options.marks, options.draws, options.trainings)


if __name__ == "__main__":
    sys.exit(main())
