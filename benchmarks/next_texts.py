"""Ten texts that `explearn annotate next` proposes against ten drawn at random or chosen otherwise.

    python benchmarks/next_texts.py [--root .] [--tasks reviews,sst2] [--marks 10] [--draws 5] [--trainings 2]
        [--split test]

`--root` is a workspace after the stages prepare, rationalise, finetune, attend and signals, whose parameters name
several tasks. For each draw, half of a task's marked training texts are there to be chosen from, drawn at random, as if
nobody had marked them. Ten of them are chosen in each way:

random          drawn
proposed        those that `explearn annotate next` proposes: much doubt, and unlike each other
representative  one next to each of ten centres of k-means over all of them, whatever the doubt
doubtful        those with the most doubt, whatever they are like

expnet_few_shot learns from each ten, with the same seeds, and is judged on the texts of `--split` as in the stage
marks-curve. Prints F1 with the top K and AUROC of each, means over the draws, and the mean differences from `random`
with their standard errors over draws.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances

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

WAYS = ("random", "proposed", "representative", "doubtful")


def representative(states: NDArray[np.float64], count: int, seed: int) -> list[int]:
    """Rows next to the centres of k-means, (texts, d) -> `count` rows."""
    clusters = KMeans(count, n_init=4, random_state=seed).fit(states)
    chosen: list[int] = []
    for distances in pairwise_distances(clusters.cluster_centers_, states):
        chosen.append(next(int(row) for row in np.argsort(distances, kind="stable") if row not in chosen))
    return chosen


def compare(
    workspace: Workspace, params: Params, name: str, split: str, marks: int, draws: int, trainings: int
) -> None:
    task = KeptTask(workspace, params, name, ComputeOptions())
    examples = {example.id: example for example in task.examples()}
    source, rows = task.features(split)
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
    figures: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        half = np.sort(rng.choice(len(known), len(known) // 2, replace=False))
        picked = {
            "random": [known[i] for i in rng.choice(half, marks, replace=False)],
            "proposed": [known[half[i]] for i in spread_out(doubts[half], states[half], marks, draw)],
            "representative": [known[half[i]] for i in representative(states[half], marks, draw)],
            "doubtful": [known[i] for i in half[np.argsort(-doubts[half], kind="stable")[:marks]]],
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
    print(
        f"{name}: {len(known)} marked texts to choose from, {len(tested)} {split} texts; F1 top-K/AUROC: "
        + "; ".join(f"{way} {'/'.join(f'{v:.3f}' for v in found.mean(0))}" for way, found in means.items())
    )
    for way in WAYS[1:]:
        gains = means[way] - means["random"]
        errors = gains.std(0, ddof=1) / np.sqrt(draws)
        said = " / ".join(f"{gain:+.3f} ± {error:.3f}" for gain, error in zip(gains.mean(0), errors, strict=True))
        print(f"  {way} - random: {said}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--tasks", help="comma-separated (default: all of the run)")
    parser.add_argument("--split", choices=["test", "validation"], default="test", help="texts to judge on")
    parser.add_argument("--marks", type=int, default=10)
    parser.add_argument("--draws", type=int, default=5, help="two or more")
    parser.add_argument("--trainings", type=int, default=2, help="seeds of a training on each ten")
    options = parser.parse_args()
    params = load_params(options.root / "params.yaml")
    for name in options.tasks.split(",") if options.tasks else params.tasks:
        compare(Workspace(options.root), params, name, options.split, options.marks, options.draws, options.trainings)


if __name__ == "__main__":
    sys.exit(main())
