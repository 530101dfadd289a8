"""Explainers that learn from other tasks' marks against methods that need no training, one task left out at a time.

    python benchmarks/universal.py [--root .] [--tasks reviews,sst2] [--seeds 5] [--texts 200] [--marks 10,25,100]
        [--baselines attn_lrp,gae] [--keep FOLDER] [--out reports/experiments/universal.json]

`--root` is a workspace whose parameters name several tasks (profile `universal` has those of both others), after the
stages prepare, rationalise, finetune and features. All texts are test texts with marks that the classifier gets
right; K is the mean number of words marked in training. Methods:

consensus         learned from the other tasks' marks alone
consensus, signals alone  the same without the features of the word itself
words alone       the same without any signal: no model plays a part
marker            universal: no mark of the task
marker n          few_shot with n marked texts, a new draw for each seed
marker in domain  all of the task's marks; all three with the options that the parameters give them
and the baselines: those of the parameters, or those named.

Prints F1 with the top K, AUROC, and F1 by a method's own rule, a column a task, means over the seeds; then, for
consensus and marker against each baseline, the differences of the mean F1 and of the mean AUROC over the tasks, with
their p-values; then each task's best baseline by F1, and what is significantly ahead there. Tests draw the texts anew
within each task (paired, two-sided, 10,000 draws), Holm over the baselines.

`--keep` is a folder for the attributions of every method, from which a run goes on where it stopped; remove it when the
classifiers or the methods have changed. `--seeds 0` runs the baselines alone, to fill it. `--out` keeps all figures.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from _marked import judged_texts, words_to_choose
from explearn.core.arrays import Array, Counts, Mask
from explearn.core.attribution import filled
from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.examples import Example
from explearn.core.writing import write_json
from explearn.lens.word_signals import WordSignals
from explearn.methods.consensus.explainer import Consensus
from explearn.methods.consensus.model import MarkedText, marked_texts, source_weights
from explearn.methods.consensus.signals import compute_signals
from explearn.methods.marker.targets import read_sources
from explearn.methods.registry import get_explainer
from explearn.metrics.plausibility import binarise, f1_of_texts, rationale_counts, select_top_k
from explearn.metrics.significance import holm, resampled_areas
from explearn_study.marks_curve import CachedTask, trained
from explearn_study.params import Params, load_params
from explearn_study.train import WorkspaceTask
from explearn_study.workspace import Workspace

Scores = dict[str, Array]
"""Example id -> score of each word."""

DRAWS = 10_000
LEARNED = ("consensus", "marker")
TESTED = ("F1 top-K", "AUROC")


@dataclass(frozen=True, slots=True)
class Judged:
    """One method on one task's n texts.

    scores, marks: of each text's words. top, own: counts by the top K and by its own rule, (n, 3).
    """

    scores: list[Array]
    marks: list[Mask]
    top: Counts
    own: Counts


Results = Mapping[str, Mapping[str, list[Judged]]]
"""Task -> method -> what each seed gave."""

Samples = Mapping[str, Mapping[str, Array]]
"""Task -> method -> the figures TESTED, means over the seeds, of the texts as they are and as drawn: (2, 1 + DRAWS)."""


# ---- explaining ------------------------------------------------------------------------------------------------------


def kept(folder: Path | None, name: str, texts: Sequence[Example], make: Callable[[], Scores]) -> Scores:
    """Return the texts' scores: from `folder`, where they are there, else made and written."""
    if folder is None:
        return make()
    path = folder / f"{name}.json"
    if path.exists():
        stored = read_json(path)
        if all(text.id in stored for text in texts):
            return {text.id: np.asarray(stored[text.id]) for text in texts}
    scores = make()
    write_json(path, {key: values.tolist() for key, values in scores.items()})
    return scores


def baseline(task: WorkspaceTask, texts: Sequence[Example], method: str, options: Mapping[str, Any]) -> Scores:
    """Explain by a method without training; words that the classifier did not read get the text's lowest score."""
    found = {}
    for attribution in get_explainer(method, **options).explain(task.classifier, texts):
        scores = np.asarray(attribution.scores, dtype=np.float64)
        found[str(attribution.example_id)] = np.where(np.isnan(scores), np.nanmin(scores), scores)
    return found


def blank(text: WordSignals) -> WordSignals:
    """Return the text with every signal the same for all words: nothing of the model is left."""
    return replace(text, scores=np.zeros_like(text.scores), probability=0.5)


class Learned:
    """The methods that learn, on one task. What the seeds have in common is read or computed once.

    Marker scores test texts from the features that the stage features stored, consensus from signals computed here.
    """

    def __init__(self, task: CachedTask, params: Params, texts: Sequence[Example]) -> None:
        self.task = task
        self.params = params
        self.texts = texts
        self.marked: dict[str, list[MarkedText]] = {}
        for other in task.others:
            marked = marked_texts(other)
            if marked:
                self.marked[other.name] = marked
        self.weights = source_weights(task, self.marked)
        self.sources = read_sources(task, "universal")

    @cached_property
    def signals(self) -> list[WordSignals]:
        return compute_signals(self.task.classifier, self.texts)

    def methods(self, seed: int, marks: Sequence[int]) -> dict[str, Callable[[], Scores]]:
        """Return name -> a function that trains the method and explains the texts."""
        found: dict[str, Callable[[], Scores]] = {"marker": partial(self.marker, "universal", 0, seed)}
        for count in marks:
            found[f"marker {count}"] = partial(self.marker, "few_shot", count, seed)
        found["marker in domain"] = partial(self.marker, "in_domain", 0, seed)
        found["consensus"] = partial(self.consensus, seed)
        if seed == 0:  # no draw changes these two by much
            found["consensus, signals alone"] = partial(self.consensus, seed, word_features=False)
            found["words alone"] = partial(self.words_alone, seed)
        return found

    def marker(self, protocol: str, marks: int, seed: int) -> Scores:
        """Train with the run's options."""
        explainer = trained(self.task, self.params, protocol, marks, seed, self.sources)
        words = {text.id: len(text.all_words) for text in self.texts}
        found = {}
        for row in self.task.features("test")[1]:
            if row.example_id in words:
                scores = explainer.score_features(row, words[row.example_id])
                found[row.example_id] = filled(scores).astype(np.float64)
        return found

    def consensus(self, seed: int, **options: Any) -> Scores:
        consensus = Consensus(seed=seed, **options).fit_tasks(self.marked, weights=self.weights)
        return {text.example_id: consensus.word_probabilities(text) for text in self.signals}

    def words_alone(self, seed: int) -> Scores:
        marked = {}
        for name, texts in self.marked.items():
            marked[name] = [MarkedText(blank(text.signals), text.mask) for text in texts]
        consensus = Consensus(seed=seed, copies=0).fit_tasks(marked, weights=self.weights)
        return {text.example_id: consensus.word_probabilities(blank(text)) for text in self.signals}


# ---- judging ---------------------------------------------------------------------------------------------------------


def judge(found: Scores, texts: Sequence[Example], gold: Mapping[str, Sequence[bool]], k: int, rule: str) -> Judged:
    scores = [found[text.id] for text in texts]
    marks = [np.asarray(gold[text.id], dtype=bool) for text in texts]
    top = [select_top_k(words, k) for words in scores]
    own = [binarise(words, rule, k=k, threshold=0.5, positive_rate=0.2) for words in scores]
    return Judged(scores, marks, rationale_counts(top, marks), rationale_counts(own, marks))


def run_task(workspace: Workspace, params: Params, name: str, options: argparse.Namespace) -> dict[str, list[Judged]]:
    """Return method -> what each seed gave on the task's test texts; a baseline is judged once."""
    task = CachedTask(workspace, params, name, ComputeOptions())
    folder = options.keep and options.keep / name
    texts = judged_texts(task, options.texts)
    k = words_to_choose(task)
    print(f"{name}: {len(texts)} test texts, K = {k}", flush=True)
    found: dict[str, list[Judged]] = {}
    for method in options.baselines:
        entry = params.method(method)
        scores = kept(folder, method, texts, partial(baseline, task, texts, entry.of, entry.options))
        found[method] = [judge(scores, texts, task.gold, k, "top_k")]
    if not options.seeds:
        return found
    learned = Learned(task, params, texts)
    for seed in range(options.seeds):
        for method, explain in learned.methods(seed, options.marks).items():
            scores = kept(folder, f"{method.replace(' ', '_')}.{seed}", texts, explain)
            found.setdefault(method, []).append(judge(scores, texts, task.gold, k, "expected_f1"))
    return found


def resampled(seeds: Sequence[Judged]) -> Array:
    """Return what `Samples` has of a method."""
    texts = len(seeds[0].marks)
    drawn = np.random.default_rng(0).multinomial(texts, np.full(texts, 1 / texts), DRAWS)
    draws = np.concatenate([np.ones((1, texts), dtype=np.int64), drawn])
    figures = []
    for judged in seeds:
        areas, _ = resampled_areas(judged.scores, judged.marks, draws)
        figures.append([f1_of_texts(draws @ judged.top), areas])
    return np.asarray(np.mean(figures, axis=0))


def p_values(differences: Array) -> Array:
    """Return two-sided p-values of differences (..., 1 + DRAWS): (...)."""
    drawn = differences[..., 1:]
    below = np.mean(drawn <= 0, axis=-1)
    above = np.mean(drawn >= 0, axis=-1)
    return np.asarray(np.minimum(1.0, 2 * np.maximum(np.minimum(below, above), 1 / DRAWS)))


Tested = dict[str, dict[str, dict[str, list[float]]]]
"""Task or mean -> baseline -> figure of TESTED -> its difference, and p by Holm over the baselines."""


def compare(samples: Samples, first: str, others: Sequence[str]) -> Tested:
    """Test `first` less each of the others: of the mean over the tasks, and on each task."""
    tested: Tested = {}
    for name, figures in samples.items():
        differences = np.stack([figures[first] - figures[other] for other in others])
        p = p_values(differences)
        tested[name] = {other: {} for other in others}
        for column, figure in enumerate(TESTED):
            adjusted = holm(p[:, column])
            for row, other in enumerate(others):
                tested[name][other][figure] = [float(differences[row, column, 0]), float(adjusted[row])]
    return tested


# ---- printing --------------------------------------------------------------------------------------------------------


def print_table(results: Results, samples: Samples) -> dict[str, dict[str, list[float]]]:
    """Print the table, and return method -> task -> F1 with the top K, AUROC, F1 by its own rule."""
    table: dict[str, dict[str, list[float]]] = {}
    print("\n" + " " * 26 + "".join(f"{name:>18}" for name in samples))
    for method in next(iter(results.values())):
        rows = {}
        for name, found in results.items():
            own = [f1_of_texts(judged.own.sum(axis=0, keepdims=True))[0] for judged in found[method]]
            rows[name] = [*samples[name][method][:, 0].tolist(), float(np.mean(own))]
        rows["mean"] = np.mean(list(rows.values()), axis=0).tolist()
        table[method] = rows
        line = f"{method:26}"
        for row in rows.values():
            cell = "/".join([f"{figure:.3f}" for figure in row])
            line += f"{cell:>18}"
        print(line, flush=True)
    return table


def print_tests(first: str, tested: Tested) -> None:
    for other, figures in tested["mean"].items():
        cells = [f"{figure} {difference:+.3f} (p = {p:.4f})" for figure, (difference, p) in figures.items()]
        print(f"{first} - {other:24} {', '.join(cells)}")
    for name, others in tested.items():
        for figure in TESTED:
            best = min(others, key=lambda other: others[other][figure][0])
            difference, p = others[best][figure]
            behind = []
            for other, figures in others.items():
                if figures[figure][0] < 0 and figures[figure][1] < 0.05:
                    behind.append(other)
            print(
                f"{first}, {name}, {figure}: {difference:+.3f} (p = {p:.4f}) from the best, {best}; "
                f"significantly behind {', '.join(behind) or 'none'}"
            )


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--tasks", type=names, help="which to judge (default: all; all are learned from)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--texts", type=int, default=200, help="most test texts of a task")
    parser.add_argument("--marks", type=names, default=["10", "25", "100"])
    parser.add_argument("--baselines", type=names, help="comma-separated (default: those of the parameters)")
    parser.add_argument("--keep", type=Path, help="folder of attributions")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.marks = [int(count) for count in options.marks]
    return options


def names(text: str) -> list[str]:
    """Return what an option lists, comma-separated."""
    return [name for name in text.split(",") if name]


def main() -> None:
    options = read_options()
    params = load_params(options.root / "params.yaml")
    if options.baselines is None:
        options.baselines = params.baseline_names
    workspace = Workspace(options.root)
    results = {name: run_task(workspace, params, name, options) for name in options.tasks or params.tasks}
    samples: dict[str, dict[str, Array]] = {}
    for name, found in results.items():
        samples[name] = {method: resampled(judged) for method, judged in found.items()}
    methods = next(iter(results.values()))
    samples["mean"] = {}
    for method in methods:
        samples["mean"][method] = np.mean([samples[name][method] for name in results], axis=0)
    table = print_table(results, samples)
    tests = {}
    if options.seeds and options.baselines:
        for first in LEARNED:
            tests[first] = compare(samples, first, options.baselines)
            print_tests(first, tests[first])
    if options.out is not None:
        write_json(options.out, {"figures": table, "differences": tests})


if __name__ == "__main__":
    main()
