"""Between agreement with marks and faithfulness to the model: Reader at several values of `aim`.

    python benchmarks/frontier.py [--root .] [--tasks reviews,topics] [--texts 60] [--lime 100]
        [--aims 0,0.25,0.5,0.75,1] [--folder reports/experiments/frontier] [--plot docs/img/frontier.png]

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

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox

from _marked import judged_texts, words_to_choose
from explearn.core.arrays import Array
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
from explearn.metrics.plausibility import f1_of_texts, rationale_counts, select_top_k
from explearn.metrics.significance import resampled_areas
from explearn_study.params import Params, load_params
from explearn_study.train import WorkspaceTask
from explearn_study.workspace import Workspace

AIMS = "0,0.25,0.5,0.75,1"
PERCENTS = [10, 20, 50]
FAITHFUL = ("comprehensiveness", "sufficiency")
FIGURES = (*FAITHFUL, "f1_top_k", "auroc")
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

Figures = dict[str, dict[str, Any]]
"""Method -> name of a figure -> value; under `by_text`, each of FAITHFUL for each text."""


# ---- measuring -------------------------------------------------------------------------------------------------------


def run_task(workspace: Workspace, params: Params, name: str, options: argparse.Namespace) -> Figures:
    task = WorkspaceTask(workspace, params, name, ComputeOptions())
    texts = judged_texts(task, options.texts)
    k = words_to_choose(task)
    print(f"{name}: {len(texts)} test texts, K = {k}", flush=True)
    methods = explain(task, texts, options)
    encodings = {str(encoding.example_id): encoding for encoding in task.classifier.read(texts)}
    judged = faithfulness(task.classifier, encodings, methods, EvaluateParams(percents=PERCENTS))
    marks = [np.asarray(task.gold[text.id], dtype=bool) for text in texts]
    figures: Figures = {}
    for method, attributions in methods.items():
        values = judged[method].values
        by_text = {name: values[f"aopc_{name}"].tolist() for name in FAITHFUL}
        scores = [attribution.filled().astype(np.float64) for attribution in attributions]
        counts = rationale_counts([select_top_k(words, k) for words in scores], marks)
        areas, _ = resampled_areas(scores, marks, np.ones((1, len(marks)), dtype=np.int64))
        figures[method] = {name: float(np.mean(by_text[name])) for name in FAITHFUL}
        figures[method]["f1_top_k"] = float(f1_of_texts(counts.sum(axis=0, keepdims=True))[0])
        figures[method]["auroc"] = float(areas[0])
        figures[method]["by_text"] = by_text
    return figures


def explain(task: WorkspaceTask, texts: Sequence[Example], options: argparse.Namespace) -> dict[str, list[Attribution]]:
    """Explain by the baselines, the learned methods, Reader with each aim, and the marks themselves."""
    found: dict[str, list[Attribution]] = {}
    for name, settings in {**BASELINES, "lime": {"samples": options.lime}}.items():
        found[name] = list(get_explainer(name, **settings).explain(task.classifier, texts))
    for learned in (Consensus(seed=task.params.seed), Marker(seed=task.params.seed)):
        found[learned.name] = list(learned.learn(task).explain(task.classifier, texts))
    reader = Reader(marked="universal", seed=task.params.seed).learn(task)
    for aim in options.aims:
        reader.options = reader.options.model_copy(update={"aim": aim})
        found[f"reader {aim:g}"] = list(reader.explain(task.classifier, texts))
    found["marks"] = []
    for attribution in found["gae"]:
        marks = np.asarray(task.gold[str(attribution.example_id)], dtype=np.float32)
        found["marks"].append(replace(attribution, scores=marks))
    return found


def means(results: Mapping[str, Figures]) -> Figures:
    found: Figures = {}
    for method in next(iter(results.values())):
        found[method] = {}
        for name in FIGURES:
            found[method][name] = float(np.mean([figures[method][name] for figures in results.values()]))
    return found


def differences(figures: Figures, method: str, other: str, name: str) -> Array:
    """Return the mean difference over the texts as they are, then over texts drawn anew, (1 + DRAWS,)."""
    by_text = np.subtract(figures[method]["by_text"][name], figures[other]["by_text"][name])
    count = len(by_text)
    weights = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), DRAWS)
    return np.concatenate([[by_text.mean()], weights @ by_text / count])


# ---- printing --------------------------------------------------------------------------------------------------------


def print_figures(figures: Figures) -> None:
    print(f"{'':22}" + "".join(f"{name:>20}" for name in FIGURES))
    for method, values in figures.items():
        print(f"{method:22}" + "".join(f"{values[name]:20.3f}" for name in FIGURES))


def print_differences(results: Mapping[str, Figures]) -> None:
    methods = next(iter(results.values()))
    readers = [method for method in methods if method.startswith("reader")]
    for other in COMPARED:
        for method in readers:
            parts = []
            for name in FAITHFUL:
                samples = {task: differences(figures, method, other, name) for task, figures in results.items()}
                mean = np.mean(list(samples.values()), axis=0)
                cells = [difference_cell(task, drawn) for task, drawn in {"mean": mean, **samples}.items()]
                parts.append(f"{name} {', '.join(cells)}")
            print(f"{method} - {other}: {'; '.join(parts)}")


def difference_cell(task: str, drawn: Array) -> str:
    low, high = np.percentile(drawn[1:], (2.5, 97.5))
    return f"{task} {drawn[0]:+.3f} ({low:+.3f} to {high:+.3f})"


# ---- picture ---------------------------------------------------------------------------------------------------------


def plot(figures: Figures, path: Path, aims: Sequence[float]) -> None:
    figure, axes = plt.subplots(figsize=(6.4, 4.2), dpi=100)
    curve = [point_of(figures, f"reader {aim:g}") for aim in aims]
    axes.plot(*zip(*curve, strict=True), "o-", color="tab:blue", label=f"reader, aim {aims[0]:g} to {aims[-1]:g}")
    for aim, point in zip(aims, curve, strict=True):
        write(axes, f"{aim:g}", point, (4, 5), color="tab:blue")
    others = {name: point_of(figures, name) for name in ("consensus", "marker", *BASELINES)}
    for point in others.values():
        axes.plot(*point, "s", color="grey")
    marks = figures["marks"]["comprehensiveness"]
    axes.axvline(marks, color="grey", linestyle=":", linewidth=1)
    write(axes, "the marks", (marks, axes.get_ylim()[0]), (3, 5), rotation=90, color="dimgrey")
    axes.set_xlabel("AOPC comprehensiveness (faithful to the model)")
    axes.set_ylabel("F1 top-K (agrees with the marks)")
    axes.margins(x=0.1, y=0.1)
    axes.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0, 1.01), ncols=2, frameon=False)
    figure.tight_layout()
    taken = [text.get_window_extent() for text in axes.texts]
    for point in [*curve, *others.values()]:
        centre = axes.transData.transform(point)
        taken.append(Bbox([centre - 5, centre + 5]))
    for name, point in others.items():
        taken.append(place_label(axes, name, point, taken))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def point_of(figures: Figures, method: str) -> tuple[float, float]:
    return figures[method]["comprehensiveness"], figures[method]["f1_top_k"]


def write(axes: Axes, text: str, point: tuple[float, float], offset: tuple[float, float], **style: Any) -> Any:
    """Write a text so many points right of and above a point."""
    return axes.annotate(text, point, textcoords="offset points", xytext=offset, fontsize=8, **style)


def place_label(axes: Axes, name: str, point: tuple[float, float], taken: Sequence[Bbox]) -> Bbox:
    """Write a point's name at the first of PLACES where it lies within the axes and on nothing else."""
    for side, height, edge in PLACES:
        align = "left" if side > 0 else "right"
        text = write(axes, name, point, (5 * side, height), ha=align, va=edge, color="dimgrey")
        box: Bbox = text.get_window_extent()
        inside = axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1
        if inside and not box.count_overlaps(taken):
            return box
        text.remove()
    raise ValueError(f"no place for the label {name}; draw a larger picture")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--tasks", help="which to judge, comma-separated (default: all; all are learned from)")
    parser.add_argument("--texts", type=int, default=60, help="most test texts of a task")
    parser.add_argument("--lime", type=int, default=100, help="samples of the baseline LIME")
    parser.add_argument("--aims", default=AIMS, help="comma-separated")
    parser.add_argument("--folder", type=Path, default=Path("reports/experiments/frontier"))
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    options.aims = [float(aim) for aim in options.aims.split(",")]
    params = load_params(options.root / "params.yaml")
    tasks = options.tasks.split(",") if options.tasks else params.tasks
    results: dict[str, Figures] = {}
    for name in tasks:
        path = options.folder / f"{name}.json"
        if not path.exists():
            write_json(path, run_task(Workspace(options.root), params, name, options))
        results[name] = read_json(path)
        print(f"\n{name}")
        print_figures(results[name])
    print(f"\nmean of {len(results)} tasks")
    mean = means(results)
    print_figures(mean)
    print_differences(results)
    if options.plot is not None:
        plot(mean, options.plot, options.aims)


if __name__ == "__main__":
    main()
