"""Explainers that learn from other tasks' marks against methods that need no training, one task left out at a time.

    python benchmarks/universal.py [--root .] [--tasks reviews,sst2] [--seeds 5] [--texts 200] [--marks 0,10,25,100]
        [--baselines light] [--out reports/experiments/universal.json]

`--root` is a workspace whose parameters name several tasks (profile `universal` has those of both others), after the
stages prepare, rationalise, finetune, attend and signals. All texts are test texts with marks that the classifier gets
right; K is the mean number of words marked in training. Methods:

consensus         learned from the other tasks' marks alone
consensus, signals alone  the same without the features of the word itself
words alone       the same without any signal: no model plays a part
expnet            universal: no mark of the task
expnet n          few_shot with n marked texts, a new draw for each seed
expnet in domain  all of the task's marks
and the baselines of a roster.

Prints F1 with the top K, AUROC, and F1 by a method's own rule, a column a task, means over the seeds; then, for
consensus and expnet against each baseline, the difference of the mean F1 over the tasks and its p-value: texts drawn
anew within each task (paired, two-sided, 10,000 draws), Holm over the baselines. `--out` keeps all of it as JSON.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from explearn.core.compute import ComputeOptions
from explearn.core.records import Attribution, Example
from explearn.core.storage import write_json
from explearn.data.choice import texts_to_explain
from explearn.introspection.word_signals import WordSignals
from explearn.methods.base.registry import get_explainer
from explearn.methods.consensus.explainer import Consensus
from explearn.methods.consensus.marked import marked_texts, source_weights
from explearn.methods.consensus.model import MarkedText
from explearn.methods.expnet.explainer import ExpNet
from explearn.metrics.plausibility import binarise, rationale_counts, rationale_k, select_top_k
from explearn.metrics.significance import holm
from explearn.pipeline.base.params import Params, load_params
from explearn.pipeline.base.workspace import Workspace
from explearn.pipeline.train import WorkspaceTask

Results = Mapping[str, Mapping[str, list["Judged"]]]
"""Task -> method -> what each seed gave."""

DRAWS = 10_000
WITH_MARKS = {"context": 1, "input_dropout": 0.3, "dropout": 0.5}


@dataclass(frozen=True, slots=True)
class Judged:
    """One method on one task: counts (texts, 3) by the top K and by its own rule, scores and marks of each text."""

    top: NDArray[np.int64]
    own: NDArray[np.int64]
    scores: list[NDArray[np.float64]]
    marks: list[NDArray[np.bool_]]


def f1(counts: NDArray[np.int64]) -> float:
    hit, false, missed = counts.sum(0)
    return float(2 * hit / max(1, 2 * hit + false + missed))


def area(judged: Judged) -> float:
    return float(roc_auc_score(np.concatenate(judged.marks), np.concatenate(judged.scores)))


def judge(found: Sequence[Attribution], gold: Mapping[str, Sequence[bool]], k: int, rule: str) -> Judged:
    scores = [np.asarray(one.scores, dtype=np.float64) for one in found]
    marks = [np.asarray(gold[str(one.example_id)], dtype=bool) for one in found]
    own = [binarise(s, rule, k=k, threshold=0.5, positive_rate=0.2) for s in scores]
    return Judged(
        rationale_counts([select_top_k(s, k) for s in scores], marks), rationale_counts(own, marks), scores, marks
    )


def blank(text: WordSignals) -> WordSignals:
    """The text with every signal the same for all words: nothing of the model is left."""
    return replace(text, scores=np.zeros_like(text.scores), probability=0.5)


def words_alone(task: WorkspaceTask, texts: Sequence[Example], seed: int) -> list[Attribution]:
    sources = {
        one.name: [MarkedText(blank(text.signals), text.mask) for text in marked]
        for one in task.others
        if (marked := marked_texts(one))
    }
    model = Consensus(seed=seed, bootstrap=0, copies=0).fit_tasks(sources, weights=source_weights(task, sources))
    found = []
    for example, one in zip(texts, get_explainer("random").explain(task.classifier, texts), strict=True):
        text = WordSignals(
            example.id, example.all_words, one.predicted, 0.5, np.zeros((len(example.all_words), 11), dtype=np.float32)
        )
        found.append(replace(one, scores=model.word_probabilities(text).astype(np.float32)))
    return found


def learned(task: WorkspaceTask, texts: Sequence[Example], seed: int, marks: Sequence[int]) -> dict[str, Any]:
    def explained(explainer: Any) -> list[Attribution]:
        return list(explainer.fit(task).explain(task.classifier, texts))

    def expnet(**options: Any) -> list[Attribution]:
        return explained(ExpNet(seed=seed, **options))

    found = {"expnet": expnet()}
    for count in marks:
        found[f"expnet {count}"] = expnet(protocol="few_shot", marks=count, **WITH_MARKS)
    found["expnet in domain"] = expnet(protocol="in_domain", **WITH_MARKS)
    found["consensus"] = explained(Consensus(seed=seed, bootstrap=0))
    found["consensus, signals alone"] = explained(Consensus(seed=seed, bootstrap=0, word_features=False))
    found["words alone"] = words_alone(task, texts, seed)
    return found


def run_task(
    workspace: Workspace, params: Params, name: str, seeds: int, most: int, marks: Sequence[int], baselines: Any
) -> dict[str, list[Judged]]:
    """Method -> what each seed gave on the task's test texts; a baseline is judged once."""
    task = WorkspaceTask(workspace, params, name, ComputeOptions())
    gold = task.gold
    chosen = [e for e in texts_to_explain(task.examples("test"), gold, None, params.seed) if e.id in gold][:most]
    first = list(get_explainer("gae").explain(task.classifier, chosen))
    texts = [e for e, one in zip(chosen, first, strict=True) if one.predicted == e.label]
    masks = [gold[e.id] for e in task.examples(task.rationale_split) if e.id in gold]
    k = rationale_k(float(np.mean([sum(mask) for mask in masks])))
    print(f"{name}: {len(texts)} test texts, K = {k}", flush=True)
    found: dict[str, list[Judged]] = {}
    for method, options in baselines.items():
        explainer = get_explainer(method, **options)
        found[method] = [judge(list(explainer.explain(task.classifier, texts)), gold, k, "top_k")]
    for seed in range(seeds):
        for method, attributions in learned(task, texts, seed, marks).items():
            found.setdefault(method, []).append(judge(attributions, gold, k, "expected_f1"))
    return found


def redrawn(judged: Judged, draws: NDArray[np.int64]) -> NDArray[np.float64]:
    """F1 with the top K on texts drawn anew, (draws,)."""
    sums = judged.top[draws].sum(1)
    found: NDArray[np.float64] = 2 * sums[:, 0] / np.maximum(1, 2 * sums[:, 0] + sums[:, 1] + sums[:, 2])
    return found


def top_f1(judged: Judged) -> float:
    return f1(judged.top)


def own_f1(judged: Judged) -> float:
    return f1(judged.own)


def mean_over_tasks(results: Results, method: str) -> float:
    """Of F1 with the top K."""
    return float(np.mean([np.mean([top_f1(one) for one in found[method]]) for found in results.values()]))


def compare(results: Results, first: str, others: Sequence[str]) -> list[tuple[str, float, float]]:
    """For each other method: difference in mean F1 over the tasks, and p adjusted by Holm."""
    generator = np.random.default_rng(0)
    samples: dict[str, list[NDArray[np.float64]]] = {name: [] for name in (first, *others)}
    for found in results.values():
        count = len(found[first][0].marks)
        draws = generator.integers(count, size=(DRAWS, count))
        for name, kept in samples.items():
            kept.append(np.mean([redrawn(one, draws) for one in found[name]], 0))
    mean = {name: np.mean(rows, 0) for name, rows in samples.items()}
    below = [float(np.mean(mean[first] - mean[name] <= 0)) for name in others]
    adjusted = holm([min(1.0, 2 * max(min(p, 1 - p), 1 / DRAWS)) for p in below])
    reached = mean_over_tasks(results, first)
    by = [reached - mean_over_tasks(results, name) for name in others]
    return list(zip(others, by, adjusted.tolist(), strict=True))


def show(results: Results) -> dict[str, dict[str, list[float]]]:
    """Prints the table, and returns method -> task -> F1 with the top K, AUROC, F1 by its own rule."""
    tasks, methods = list(results), list(next(iter(results.values())))
    table: dict[str, dict[str, list[float]]] = {}
    print("\n" + " " * 26 + "".join(f"{name:>18}" for name in [*tasks, "mean"]))
    for method in methods:
        rows = {
            name: [float(np.mean([what(one) for one in found[method]])) for what in (top_f1, area, own_f1)]
            for name, found in results.items()
        }
        rows["mean"] = np.mean(list(rows.values()), 0).tolist()
        table[method] = rows
        print(f"{method:26}" + "".join(f"{'/'.join(f'{v:.3f}' for v in row):>18}" for row in rows.values()), flush=True)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--tasks", help="which to judge, comma-separated (default: all; all are learned from)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--texts", type=int, default=200, help="most test texts of a task")
    parser.add_argument("--marks", default="10,25,100")
    parser.add_argument("--baselines", choices=["run", "none"], default="run", help="those of the parameters, or none")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    params = load_params(options.root / "params.yaml")
    baselines = {}
    if options.baselines == "run":
        baselines = {**params.baselines.quick, **params.baselines.costly}
    names = options.tasks.split(",") if options.tasks else params.tasks
    marks = [int(part) for part in options.marks.split(",") if part]
    workspace = Workspace(options.root)
    results = {n: run_task(workspace, params, n, options.seeds, options.texts, marks, baselines) for n in names}
    table = show(results)
    tests = {}
    for first in ("consensus", "expnet"):
        for other, difference, p in compare(results, first, list(baselines)) if baselines else []:
            tests[f"{first} - {other}"] = [difference, p]
            print(f"{first} - {other:24} {difference:+.3f}  p = {p:.4f}")
    if options.out is not None:
        write_json(options.out, {"figures": table, "differences": tests})


if __name__ == "__main__":
    sys.exit(main())
