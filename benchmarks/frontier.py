"""Between agreement with people and faithfulness to the model: consensus and ExpNet at several values of `aim`.

    python benchmarks/frontier.py [--root .] [--tasks reviews,sst2] [--texts 60] [--lime 100]
        [--aims 0,0.25,0.5,0.75,1] [--folder reports/experiments/frontier] [--plot docs/img/frontier.png]

`--root` is a workspace whose parameters name several tasks (profile `universal` has those of `embedded` and `local`),
after the stages prepare, rationalise, finetune, attend and signals, the last with signals.removal_samples above 0.
All texts are test texts with marks that the classifier gets right; each method learns from the other tasks' texts, and
expnet from unmarked texts of the task besides.

Prints, as means over the tasks: AOPC comprehensiveness and sufficiency over 10, 20 and 50 % of the words (deleted),
F1 with the top K words (K: mean number of words marked in training) and AUROC. `people` are the marks themselves.
`--folder` keeps one JSON file a task; a task with a file there is not run again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from explearn.core.compute import ComputeOptions
from explearn.core.records import Attribution, Example
from explearn.core.sections import EvaluateParams
from explearn.core.storage import read_json, write_json
from explearn.data.choice import texts_to_explain
from explearn.methods.base.registry import get_explainer
from explearn.methods.consensus.explainer import Consensus
from explearn.methods.expnet.explainer import ExpNet
from explearn.metrics.faithfulness import faithfulness
from explearn.metrics.plausibility import rationale_counts, rationale_k, select_top_k
from explearn.pipeline.base.params import Params, load_params
from explearn.pipeline.base.workspace import Workspace
from explearn.pipeline.train import WorkspaceTask

AIMS = (0.0, 0.25, 0.5, 0.75, 1.0)
PERCENTS = [10, 20, 50]
MEASURES = ("comprehensiveness", "sufficiency", "f1_top_k", "auroc")

Found = dict[str, dict[str, float]]
"""Method -> measure -> value."""


def people(texts: Sequence[Attribution], gold: Mapping[str, Sequence[bool]]) -> list[Attribution]:
    return [replace(one, scores=np.asarray(gold[str(one.example_id)], dtype=np.float32)) for one in texts]


def explained(
    task: WorkspaceTask, texts: Sequence[Example], seed: int, lime: int, aims: Sequence[float]
) -> dict[str, list[Attribution]]:
    untrained: dict[str, dict[str, Any]] = {
        "gae": {},
        "attcat": {},
        "attn_lrp": {},
        "integrated_gradients": {"steps": 12},
        "lime": {"samples": lime},
    }
    found = {
        name: list(get_explainer(name, **options).explain(task.classifier, texts))
        for name, options in untrained.items()
    }
    for aim in aims:
        for name, explainer in (
            ("consensus", Consensus(seed=seed, bootstrap=0, aim=aim)),
            ("expnet", ExpNet(seed=seed, aim=aim)),
        ):
            found[f"{name} {aim:g}"] = list(explainer.fit(task).explain(task.classifier, texts))
    return found


def run_task(
    workspace: Workspace, params: Params, name: str, most: int, lime: int, aims: Sequence[float] = AIMS
) -> Found:
    task = WorkspaceTask(workspace, params, name, ComputeOptions())
    gold = task.gold
    chosen = [e for e in texts_to_explain(task.examples("test"), gold, None, params.seed) if e.id in gold][:most]
    predicted = task.classifier.predict(chosen)
    texts = [e for e, label in zip(chosen, predicted, strict=True) if label == e.label]
    masks = [gold[e.id] for e in task.examples(task.rationale_split) if e.id in gold]
    k = rationale_k(float(np.mean([sum(mask) for mask in masks])))
    print(f"{name}: {len(texts)} test texts, K = {k}", flush=True)
    methods = explained(task, texts, params.seed, lime, aims)
    methods["people"] = people(methods["gae"], gold)
    encodings = {str(encoding.example_id): encoding for encoding in task.classifier.encode(texts)}
    judged = faithfulness(task.classifier, encodings, methods, EvaluateParams(percents=PERCENTS))
    found: Found = {}
    for method, attributions in methods.items():
        scores = [np.asarray(one.scores, dtype=np.float64) for one in attributions]
        marks = [np.asarray(gold[str(one.example_id)], dtype=bool) for one in attributions]
        hit, false, missed = rationale_counts([select_top_k(s, k) for s in scores], marks).sum(0)
        found[method] = {
            "comprehensiveness": float(judged[method].aopc_comprehensiveness.mean()),
            "sufficiency": float(judged[method].aopc_sufficiency.mean()),
            "f1_top_k": float(2 * hit / max(1, 2 * hit + false + missed)),
            "auroc": float(roc_auc_score(np.concatenate(marks), np.concatenate(scores))),
        }
    return found


def means(results: Mapping[str, Found]) -> Found:
    methods = next(iter(results.values()))
    return {
        method: {what: float(np.mean([found[method][what] for found in results.values()])) for what in MEASURES}
        for method in methods
    }


def show(found: Found) -> None:
    print(f"{'':22}" + "".join(f"{what:>20}" for what in MEASURES))
    for method, values in found.items():
        print(f"{method:22}" + "".join(f"{values[what]:20.3f}" for what in MEASURES))


def plot(found: Found, path: Path, aims: Sequence[float]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2), dpi=100)
    for name, colour in (("consensus", "tab:blue"), ("expnet", "tab:orange")):
        rows = [found[f"{name} {aim:g}"] for aim in aims]
        x, y = [row["comprehensiveness"] for row in rows], [row["f1_top_k"] for row in rows]
        axes.plot(x, y, "o-", color=colour, label=f"{name}, aim {aims[0]:g} to {aims[-1]:g}")
        for aim, *at in zip(aims, x, y, strict=True):
            axes.annotate(f"{aim:g}", at, textcoords="offset points", xytext=(4, 5), fontsize=8, color=colour)
    for name in ("gae", "attcat", "attn_lrp", "integrated_gradients", "lime"):
        at = (found[name]["comprehensiveness"], found[name]["f1_top_k"])
        axes.plot(*at, "s", color="grey")
        axes.annotate(name, at, textcoords="offset points", xytext=(5, -10), fontsize=8, color="dimgrey")
    axes.axvline(found["people"]["comprehensiveness"], color="grey", linestyle=":", linewidth=1)
    axes.annotate(
        "people's marks",
        (found["people"]["comprehensiveness"], axes.get_ylim()[0]),
        fontsize=8,
        rotation=90,
        textcoords="offset points",
        xytext=(3, 5),
        color="dimgrey",
    )
    axes.set_xlabel("AOPC comprehensiveness (faithful to the model)")
    axes.set_ylabel("F1 top-K (agrees with people)")
    axes.margins(x=0.1)
    axes.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0, 1.01), ncols=2, frameon=False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--tasks", help="which to judge, comma-separated (default: all; all are learned from)")
    parser.add_argument("--texts", type=int, default=60, help="most test texts of a task")
    parser.add_argument("--lime", type=int, default=100, help="samples of the baseline LIME")
    parser.add_argument("--aims", default=",".join(f"{aim:g}" for aim in AIMS), help="comma-separated")
    parser.add_argument("--folder", type=Path, default=Path("reports/experiments/frontier"))
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    aims = [float(part) for part in options.aims.split(",")]
    params = load_params(options.root / "params.yaml")
    names = options.tasks.split(",") if options.tasks else params.tasks
    results: dict[str, Found] = {}
    for name in names:
        path = options.folder / f"{name}.json"
        if not path.exists():
            write_json(path, run_task(Workspace(options.root), params, name, options.texts, options.lime, aims))
        results[name] = read_json(path)
        print(f"\n{name}")
        show(results[name])
    print(f"\nmean of {len(results)} tasks")
    found = means(results)
    show(found)
    if options.plot is not None:
        plot(found, options.plot, aims)


if __name__ == "__main__":
    sys.exit(main())
