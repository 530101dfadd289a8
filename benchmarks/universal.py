"""Explainers that learn from other tasks' marks against methods that need no training, one task left out at a time.

    python benchmarks/universal.py [--root .] [--tasks reviews,sst2] [--seeds 5] [--texts 200] [--costly-texts 200]
        [--marks 10,25,100] [--baselines run] [--beside grammar] [--keep FOLDER]
        [--out reports/experiments/universal.json]

`--root` is a workspace whose parameters name several tasks (profile `universal` has those of both others), after the
stages prepare, rationalise, finetune and features. All texts are test texts with marks that the classifier gets
right; K is the mean number of words marked in training. Methods:

consensus         learned from the other tasks' marks alone
consensus, signals alone  the same without the features of the word itself
words alone       the same without any signal: no model plays a part
marker            universal: no mark of the task
marker n          few_shot with n marked texts, a new draw for each seed
marker in domain  all of the task's marks; all three with the options that the parameters give them
and the baselines of a roster; those that it calls costly on the first `--costly-texts` texts alone.

Prints F1 with the top K, AUROC, and F1 by a method's own rule, a column a task, means over the seeds; then, for
consensus and marker against each baseline, the differences of the mean F1 and of the mean AUROC over the tasks, with
their p-values; then each task's best baseline by F1, and what is significantly ahead there. Tests draw the texts anew
within each task (paired, two-sided, 10,000 draws, the texts that both explained), Holm over the baselines. Tasks under
`--beside` are reported and left out of the means.

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
from numpy.typing import NDArray

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
from explearn.metrics.plausibility import binarise, rationale_counts, rationale_k, select_top_k
from explearn.metrics.significance import holm
from explearn.text.sampling import texts_to_explain
from explearn_study.marks_curve import CachedTask, trained
from explearn_study.params import Params, load_params
from explearn_study.train import WorkspaceTask
from explearn_study.workspace import Workspace

Scores = dict[str, NDArray[np.float64]]
"""Example id -> score of each word."""

Results = Mapping[str, Mapping[str, list["Judged"]]]
"""Task -> method -> what each seed gave."""

DRAWS = 10_000
LEARNED = ("consensus", "marker")
MEASURES = ("F1 top-K", "AUROC")


@dataclass(frozen=True, slots=True)
class Judged:
    """One method on one task's n texts.

    top, own: counts by the top K and by its own rule, (n, 3). won: for two texts, how many pairs of a marked word of
    the first and another word of the second are in the right order, ties half, (n, n). marked, other: words, (n,).
    """

    top: NDArray[np.int64]
    own: NDArray[np.int64]
    won: NDArray[np.float64]
    marked: NDArray[np.int64]
    other: NDArray[np.int64]

    def first(self, count: int) -> Judged:
        """On the first texts alone."""
        part = slice(count)
        return Judged(self.top[part], self.own[part], self.won[part, part], self.marked[part], self.other[part])


def f1(counts: NDArray[Any]) -> NDArray[np.float64]:
    """(..., 3) -> (...)."""
    hit, false, missed = np.moveaxis(counts, -1, 0)
    return np.asarray(2 * hit / np.maximum(1, 2 * hit + false + missed))


def area(judged: Judged, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """AUROC over all words, texts weighing `weights`, (draws, n): (draws,)."""
    weights = np.ones((1, len(judged.top))) if weights is None else weights
    pairs = (weights @ judged.marked) * (weights @ judged.other)
    return np.asarray(((weights @ judged.won) * weights).sum(1) / np.maximum(1, pairs))


def right_order(scores: Sequence[NDArray[np.float64]], marks: Sequence[NDArray[np.bool_]]) -> NDArray[np.float64]:
    """`Judged.won`."""
    marked = np.concatenate([s[m] for s, m in zip(scores, marks, strict=True)])
    starts = np.cumsum([0, *(int(m.sum()) for m in marks)])
    won = np.zeros((len(scores), len(scores)))
    for column, (one, mask) in enumerate(zip(scores, marks, strict=True)):
        rest = np.sort(one[~mask])
        below = (np.searchsorted(rest, marked, "left") + np.searchsorted(rest, marked, "right")) / 2
        sums = np.concatenate([[0.0], np.cumsum(below)])
        won[:, column] = sums[starts[1:]] - sums[starts[:-1]]
    return won


def judge(found: Scores, texts: Sequence[Example], gold: Mapping[str, Sequence[bool]], k: int, rule: str) -> Judged:
    """Of the texts of `found`, in the order of `texts`."""
    ids = [text.id for text in texts if text.id in found]
    scores = [found[key] for key in ids]
    marks = [np.asarray(gold[key], dtype=bool) for key in ids]
    own = [binarise(s, rule, k=k, threshold=0.5, positive_rate=0.2) for s in scores]
    return Judged(
        rationale_counts([select_top_k(s, k) for s in scores], marks),
        rationale_counts(own, marks),
        right_order(scores, marks),
        np.array([mask.sum() for mask in marks]),
        np.array([(~mask).sum() for mask in marks]),
    )


def kept(folder: Path | None, name: str, texts: Sequence[Example], make: Callable[[], Scores]) -> Scores:
    """Scores of the texts: from `folder`, where they are there, else made and written."""
    path = None if folder is None else folder / f"{name}.json"
    if path is not None and path.exists():
        stored = read_json(path)
        if {text.id for text in texts} <= set(stored):
            return {text.id: np.asarray(stored[text.id]) for text in texts}
    found = make()
    if path is not None:
        write_json(path, {key: scores.tolist() for key, scores in found.items()})
    return found


def baseline(task: WorkspaceTask, texts: Sequence[Example], method: str, options: Mapping[str, Any]) -> Scores:
    """Words that the classifier did not read have the lowest score of their text."""
    found = {}
    for one in get_explainer(method, **options).explain(task.classifier, texts):
        scores = np.asarray(one.scores, dtype=np.float64)
        found[str(one.example_id)] = np.where(np.isnan(scores), np.nanmin(scores), scores)
    return found


def blank(text: WordSignals) -> WordSignals:
    """The text with every signal the same for all words: nothing of the model is left."""
    return replace(text, scores=np.zeros_like(text.scores), probability=0.5)


class Learned:
    """The methods that learn, on one task. What the seeds have in common is read or computed once.

    Marker scores test texts from the features that the stage attend stored, consensus from signals computed here.
    """

    def __init__(self, task: CachedTask, params: Params, texts: Sequence[Example]) -> None:
        self.task, self.params, self.texts = task, params, texts
        self.marked = {one.name: found for one in task.others if (found := marked_texts(one))}
        self.weights = source_weights(task, self.marked)
        self.sources = read_sources(task, "universal")

    @cached_property
    def signals(self) -> list[WordSignals]:
        return compute_signals(self.task.classifier, self.texts)

    def methods(self, seed: int, marks: Sequence[int]) -> dict[str, Callable[[], Scores]]:
        """Name -> a function that trains the method and explains the texts."""
        found: dict[str, Callable[[], Scores]] = {"marker": lambda: self.marker("universal", 0, seed)}
        for count in marks:
            found[f"marker {count}"] = partial(self.marker, "few_shot", count, seed)
        found["marker in domain"] = lambda: self.marker("in_domain", 0, seed)
        found["consensus"] = lambda: self.consensus(seed)
        if seed == 0:  # no draw changes these two by much
            found["consensus, signals alone"] = lambda: self.consensus(seed, word_features=False)
            found["words alone"] = lambda: self.words_alone(seed)
        return found

    def marker(self, protocol: str, marks: int, seed: int) -> Scores:
        """With the run's options."""
        explainer = trained(self.task, self.params, protocol, marks, seed, self.sources)
        _, rows = self.task.features("test")
        words = {text.id: len(text.all_words) for text in self.texts}
        return {
            row.example_id: filled(explainer.score_features(row, words[row.example_id])).astype(np.float64)
            for row in rows
            if row.example_id in words
        }

    def consensus(self, seed: int, **options: Any) -> Scores:
        consensus = Consensus(seed=seed, **options).fit_tasks(self.marked, weights=self.weights)
        return {text.example_id: consensus.word_probabilities(text) for text in self.signals}

    def words_alone(self, seed: int) -> Scores:
        marked = {
            name: [MarkedText(blank(text.signals), text.mask) for text in texts] for name, texts in self.marked.items()
        }
        consensus = Consensus(seed=seed, copies=0).fit_tasks(marked, weights=self.weights)
        return {text.example_id: consensus.word_probabilities(blank(text)) for text in self.signals}


def run_task(workspace: Workspace, params: Params, name: str, options: argparse.Namespace) -> dict[str, list[Judged]]:
    """Method -> what each seed gave on the task's test texts; a baseline is judged once."""
    task = CachedTask(workspace, params, name, ComputeOptions())
    gold, folder = task.gold, None if options.keep is None else options.keep / name
    chosen = [e for e in texts_to_explain(task.examples("test"), gold, None, params.seed) if e.id in gold]
    chosen = chosen[: options.texts]
    predicted = task.classifier.predict(chosen)
    texts = [e for e, label in zip(chosen, predicted, strict=True) if label == e.label]
    masks = [gold[e.id] for e in task.examples(task.rationale_split) if e.id in gold]
    k = rationale_k(float(np.mean([sum(mask) for mask in masks])))
    print(f"{name}: {len(texts)} test texts, K = {k}", flush=True)
    found: dict[str, list[Judged]] = {}
    for method in params.baseline_names if options.baselines == "run" else ():
        entry = params.methods[method]
        some = texts[: options.costly_texts] if entry.info.costly else texts
        scores = kept(folder, method, some, partial(baseline, task, some, entry.of, entry.options))
        found[method] = [judge(scores, some, gold, k, "top_k")]
    learned = Learned(task, params, texts) if options.seeds else None
    for seed in range(options.seeds):
        assert learned is not None
        for method, explained in learned.methods(seed, options.counts).items():
            scores = kept(folder, f"{method.replace(' ', '_')}.{seed}", texts, explained)
            found.setdefault(method, []).append(judge(scores, texts, gold, k, "expected_f1"))
    return found


def top_f1(judged: Judged) -> float:
    return float(f1(judged.top.sum(0)))


def own_f1(judged: Judged) -> float:
    return float(f1(judged.own.sum(0)))


def auroc(judged: Judged) -> float:
    return float(area(judged)[0])


def differences(one: Sequence[Judged], other: Sequence[Judged], draws: int) -> NDArray[np.float64]:
    """Of F1 with the top K and of AUROC, means over the seeds, on the texts that both have, (2, 1 + draws).

    First on the texts as they are, then on texts drawn anew.
    """
    count = min(len(judged.top) for judged in (*one, *other))
    generator = np.random.default_rng(0)
    weights = np.concatenate([np.ones((1, count)), generator.multinomial(count, np.full(count, 1 / count), draws)])
    means = []
    for group in (one, other):
        cut = [judged.first(count) for judged in group]
        means.append(np.mean([[f1(weights @ judged.top), area(judged, weights)] for judged in cut], 0))
    return np.asarray(means[0] - means[1])


def p_values(samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """Two-sided, of differences (..., 1 + draws): (...)."""
    drawn = samples[..., 1:]
    below, above = np.mean(drawn <= 0, -1), np.mean(drawn >= 0, -1)
    return np.asarray(np.minimum(1.0, 2 * np.maximum(np.minimum(below, above), 1 / drawn.shape[-1])))


def compare(results: Results, means: Sequence[str], first: str, others: Sequence[str]) -> dict[str, Any]:
    """`first` less each other method, [difference, p by Holm] of F1 and of AUROC: of the mean, and on each task."""
    tested: dict[str, Any] = {}
    samples = {
        name: {other: differences(found[first], found[other], DRAWS) for other in others}
        for name, found in results.items()
    }
    samples["mean"] = {other: np.mean([samples[name][other] for name in means], 0) for other in others}
    for name, by in samples.items():
        reached = np.stack([by[other][:, 0] for other in others])
        p = np.stack([p_values(by[other]) for other in others])
        adjusted = np.stack([holm(p[:, what].tolist()) for what in range(len(MEASURES))], 1)
        tested[name] = {
            other: {m: [float(reached[row, i]), float(adjusted[row, i])] for i, m in enumerate(MEASURES)}
            for row, other in enumerate(others)
        }
    return tested


def show(results: Results, means: Sequence[str]) -> dict[str, dict[str, list[float]]]:
    """Prints the table, and returns method -> task -> F1 with the top K, AUROC, F1 by its own rule."""
    tasks, methods = list(results), list(next(iter(results.values())))
    table: dict[str, dict[str, list[float]]] = {}
    print("\n" + " " * 26 + "".join(f"{name:>18}" for name in [*tasks, "mean"]))
    for method in methods:
        rows = {
            name: [float(np.mean([what(one) for one in found[method]])) for what in (top_f1, auroc, own_f1)]
            for name, found in results.items()
        }
        rows["mean"] = np.mean([rows[name] for name in means], 0).tolist()
        table[method] = rows
        print(f"{method:26}" + "".join(f"{'/'.join(f'{v:.3f}' for v in row):>18}" for row in rows.values()), flush=True)
    return table


def show_tests(first: str, tested: Mapping[str, Any]) -> None:
    for other, by in tested["mean"].items():
        said = ", ".join(f"{what} {difference:+.3f} (p = {p:.4f})" for what, (difference, p) in by.items())
        print(f"{first} - {other:24} {said}")
    for name, others in tested.items():
        for what in MEASURES:
            best = min(others, key=lambda other: others[other][what][0])
            difference, p = others[best][what]
            worse = [other for other, by in others.items() if by[what][0] < 0 and by[what][1] < 0.05]
            print(
                f"{first}, {name}, {what}: {difference:+.3f} (p = {p:.4f}) from the best, {best}; "
                f"significantly behind {', '.join(worse) or 'none'}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--tasks", help="which to judge, comma-separated (default: all; all are learned from)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--texts", type=int, default=200, help="most test texts of a task")
    parser.add_argument("--costly-texts", type=int, default=200, help="most texts that costly baselines explain")
    parser.add_argument("--marks", default="10,25,100")
    parser.add_argument("--baselines", choices=["run", "none"], default="run", help="those of the parameters, or none")
    parser.add_argument("--beside", default="", help="tasks that are no part of the means, comma-separated")
    parser.add_argument("--keep", type=Path, help="folder of attributions")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.counts = [int(part) for part in options.marks.split(",") if part]
    params = load_params(options.root / "params.yaml")
    names = options.tasks.split(",") if options.tasks else params.tasks
    means = [name for name in names if name not in options.beside.split(",")]
    workspace = Workspace(options.root)
    results = {name: run_task(workspace, params, name, options) for name in names}
    table = show(results, means)
    tests = {}
    if options.seeds and options.baselines == "run":
        others = params.baseline_names
        for first in LEARNED:
            tests[first] = compare(results, means, first, others)
            show_tests(first, tests[first])
    if options.out is not None:
        write_json(options.out, {"figures": table, "differences": tests})


if __name__ == "__main__":
    main()
