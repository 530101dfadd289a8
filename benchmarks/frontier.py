"""Between agreement with marks and faithfulness to the model: Reader at several values of `aim`.

    python benchmarks/frontier.py [--root .] [--tasks reviews,topics] [--texts 60] [--lime 100]
        [--aims 0,0.25,0.5,0.75,1] [--baselines gae,attcat,attn_lrp,integrated_gradients,lime]
        [--folder reports/experiments/frontier] [--plot docs/img/frontier.png]

`--root` is a workspace whose parameters name several tasks, after the stages prepare, rationalise, finetune and
features. All texts are test texts with marks that the classifier gets right. Of the task's own marks none is learned
from: consensus learns from the other tasks' marks, marker and reader (`marked: universal`) from that consensus.

Prints, as means over the tasks: AOPC comprehensiveness and sufficiency over 10, 20 and 50 % of the words (deleted),
F1 with the top K words (K: mean number of words marked in training) and AUROC. `marks` are the marked words themselves.
Then how much Reader differs from GAE and AttnLRP in comprehensiveness and sufficiency, means over the tasks
and of each, with 95 % intervals over the texts, paired (drawn anew within each task, 10,000 draws).

`--folder` keeps one JSON file a task; a task with a file there is not run again.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from explearn.core.attribution import Attribution
from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.examples import Example
from explearn.core.writing import write_json
from explearn.methods.consensus.explainer import Consensus
from explearn.methods.marker.explainer import Marker
from explearn.methods.reader.explainer import Reader
from explearn.methods.registry import get_explainer
from explearn.metrics.faithfulness import faithfulness
from explearn.metrics.params import EvaluateParams
from explearn.metrics.plausibility import rationale_counts, rationale_k, select_top_k
from explearn.text.sampling import texts_to_explain
from explearn_study.params import Params, load_params
from explearn_study.train import WorkspaceTask
from explearn_study.workspace import Workspace

AIMS = (0.0, 0.25, 0.5, 0.75, 1.0)
PERCENTS = [10, 20, 50]
FAITHFUL = ("comprehensiveness", "sufficiency")
MEASURES = (*FAITHFUL, "f1_top_k", "auroc")
BASELINES: dict[str, dict[str, Any]] = {
    "gae": {},
    "attcat": {},
    "attn_lrp": {},
    "integrated_gradients": {"steps": 12},
    "lime": {},
}
COMPARED = ("gae", "attn_lrp")
DRAWS = 10_000

PLACES = ((1, -3, "top"), (-1, -3, "top"), (1, 3, "bottom"), (-1, 3, "bottom"))
"""Side of a point (1: right), points above it, and which edge of its label is there, the best first."""

Found = dict[str, dict[str, Any]]
"""Method -> measure -> value; under `by_text`, each of FAITHFUL for each text."""


def as_marks(texts: Sequence[Attribution], gold: Mapping[str, Sequence[bool]]) -> list[Attribution]:
    return [replace(one, scores=np.asarray(gold[str(one.example_id)], dtype=np.float32)) for one in texts]


def explained(
    task: WorkspaceTask, texts: Sequence[Example], options: argparse.Namespace
) -> dict[str, list[Attribution]]:
    given = {**BASELINES, "lime": {"samples": options.lime}}
    found = {
        name: list(get_explainer(name, **given[name]).explain(task.classifier, texts)) for name in options.baselines
    }
    for learned in (Consensus(seed=task.params.seed), Marker(seed=task.params.seed)):
        found[learned.name] = list(learned.learn(task).explain(task.classifier, texts))
    reader = Reader(marked="universal", seed=task.params.seed).learn(task)
    for aim in options.aims:
        reader.options = reader.options.model_copy(update={"aim": aim})
        found[f"reader {aim:g}"] = list(reader.explain(task.classifier, texts))
    return found


def run_task(workspace: Workspace, params: Params, name: str, options: argparse.Namespace) -> Found:
    task = WorkspaceTask(workspace, params, name, ComputeOptions())
    gold = task.gold
    chosen = [e for e in texts_to_explain(task.examples("test"), gold, None, params.seed) if e.id in gold]
    chosen = chosen[: options.texts]
    predicted = task.classifier.predict(chosen)
    texts = [e for e, label in zip(chosen, predicted, strict=True) if label == e.label]
    masks = [gold[e.id] for e in task.examples(task.rationale_split) if e.id in gold]
    k = rationale_k(float(np.mean([sum(mask) for mask in masks])))
    print(f"{name}: {len(texts)} test texts, K = {k}", flush=True)
    methods = explained(task, texts, options)
    methods["marks"] = as_marks(next(iter(methods.values())), gold)
    encodings = {str(encoding.example_id): encoding for encoding in task.classifier.read(texts)}
    judged = faithfulness(task.classifier, encodings, methods, EvaluateParams(percents=PERCENTS))
    found: Found = {}
    for method, attributions in methods.items():
        scores = [one.filled().astype(np.float64) for one in attributions]
        marks = [np.asarray(gold[str(one.example_id)], dtype=bool) for one in attributions]
        hit, false, missed = rationale_counts([select_top_k(s, k) for s in scores], marks).sum(0)
        by_text = {what: judged[method].values[f"aopc_{what}"] for what in FAITHFUL}
        found[method] = {
            **{what: float(values.mean()) for what, values in by_text.items()},
            "by_text": {what: values.tolist() for what, values in by_text.items()},
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


def show_differences(results: Mapping[str, Found]) -> None:
    methods = next(iter(results.values()))
    for other in (name for name in COMPARED if name in methods):
        for method in (name for name in methods if name.startswith("reader")):
            said = []
            for what in FAITHFUL:
                samples = {name: differences(found, method, other, what) for name, found in results.items()}
                samples = {"mean": np.mean(list(samples.values()), 0), **samples}
                cells = []
                for name, one in samples.items():
                    low, high = interval(one)
                    cells.append(f"{name} {one[0]:+.3f} ({low:+.3f} to {high:+.3f})")
                said.append(f"{what} " + ", ".join(cells))
            print(f"{method} - {other}: " + "; ".join(said))


def differences(found: Found, method: str, other: str, what: str) -> NDArray[np.float64]:
    """Of the means over the texts as they are, and drawn anew, (1 + DRAWS,)."""
    by_text = np.subtract(found[method]["by_text"][what], found[other]["by_text"][what])
    count = len(by_text)
    weights = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), DRAWS)
    return np.concatenate([[by_text.mean()], weights @ by_text / count])


def interval(samples: NDArray[np.float64]) -> list[float]:
    found: list[float] = np.percentile(samples[1:], (2.5, 97.5)).tolist()
    return found


def place_label(axes: Axes, name: str, at: tuple[float, float], taken: Sequence[Bbox]) -> Bbox:
    """Write a point's name at the first of PLACES where it lies within the axes and on nothing else."""
    for side, height, level in PLACES:
        text = axes.annotate(
            name,
            at,
            textcoords="offset points",
            xytext=(5 * side, height),
            ha="left" if side > 0 else "right",
            va=level,
            fontsize=8,
            color="dimgrey",
        )
        box: Bbox = text.get_window_extent()
        inside = axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1
        if inside and not box.count_overlaps(taken):
            return box
        text.remove()
    raise ValueError(f"no place for the label {name}; draw a larger picture")


def plot(found: Found, path: Path, aims: Sequence[float]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2), dpi=100)
    rows = [found[f"reader {aim:g}"] for aim in aims]
    x, y = [row["comprehensiveness"] for row in rows], [row["f1_top_k"] for row in rows]
    axes.plot(x, y, "o-", color="tab:blue", label=f"reader, aim {aims[0]:g} to {aims[-1]:g}")
    for aim, *point in zip(aims, x, y, strict=True):
        axes.annotate(
            f"{aim:g}", (point[0], point[1]), textcoords="offset points", xytext=(4, 5), fontsize=8, color="tab:blue"
        )
    labels = []
    for name in (name for name in ("consensus", "marker", *BASELINES) if name in found):
        at = (found[name]["comprehensiveness"], found[name]["f1_top_k"])
        axes.plot(*at, "s", color="grey")
        labels.append((name, at))
    axes.axvline(found["marks"]["comprehensiveness"], color="grey", linestyle=":", linewidth=1)
    axes.annotate(
        "the marks",
        (found["marks"]["comprehensiveness"], axes.get_ylim()[0]),
        fontsize=8,
        rotation=90,
        textcoords="offset points",
        xytext=(3, 5),
        color="dimgrey",
    )
    axes.set_xlabel("AOPC comprehensiveness (faithful to the model)")
    axes.set_ylabel("F1 top-K (agrees with the marks)")
    axes.margins(x=0.1, y=0.1)
    axes.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0, 1.01), ncols=2, frameon=False)
    figure.tight_layout()
    taken = [text.get_window_extent() for text in axes.texts]
    for position in [*zip(x, y, strict=True), *(at for _, at in labels)]:
        centre = axes.transData.transform(position)
        taken.append(Bbox([centre - 5, centre + 5]))
    for name, at in labels:
        taken.append(place_label(axes, name, at, taken))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--tasks", help="which to judge, comma-separated (default: all; all are learned from)")
    parser.add_argument("--texts", type=int, default=60, help="most test texts of a task")
    parser.add_argument("--lime", type=int, default=100, help="samples of the baseline LIME")
    parser.add_argument("--aims", default=",".join(f"{aim:g}" for aim in AIMS), help="comma-separated")
    parser.add_argument("--baselines", default=",".join(BASELINES), help="comma-separated")
    parser.add_argument("--folder", type=Path, default=Path("reports/experiments/frontier"))
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    options.aims = [float(part) for part in options.aims.split(",")]
    options.baselines = options.baselines.split(",")
    params = load_params(options.root / "params.yaml")
    names = options.tasks.split(",") if options.tasks else params.tasks
    results: dict[str, Found] = {}
    for name in names:
        path = options.folder / f"{name}.json"
        if not path.exists():
            write_json(path, run_task(Workspace(options.root), params, name, options))
        results[name] = read_json(path)
        print(f"\n{name}")
        show(results[name])
    print(f"\nmean of {len(results)} tasks")
    found = means(results)
    show(found)
    show_differences(results)
    if options.plot is not None:
        plot(found, options.plot, options.aims)


if __name__ == "__main__":
    main()
