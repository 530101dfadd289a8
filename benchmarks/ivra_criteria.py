"""What training for a criterion gives: IvRA and SMaT, trained for one at a time, beside methods that need no training.

    python benchmarks/ivra_criteria.py --task sst2 [--root FOLDER] [--criteria sim,comp,suff,cons] [--texts 100]
        [--methods attention_mean,raw_attention,input_x_gradient,integrated_gradients,lime]
        [--lime-samples 500] [--ig-steps 50] [--groups 1] [--only] [--seeds 13,14,15,16,17]
        [--options '{"schedule": {"max_texts": 240}}']

--root holds data/classifiers/TASK and data/examples/TASK, as the pipeline leaves them. For each criterion IvRA is
trained from the task's classifier; the methods explain the classifier that comes out, like with like, and once more the
task's classifier, as in the paper and in a leaderboard. SMaT, trained alike, explains its own. All are measured on the
first test texts with the project's metrics: SIM is the student's gain, COMP and SUFF are AOPC, CONS is Spearman's rho;
SUFF is better when smaller. With --groups they are --texts each of so many groups, and a metric is the mean of the
groups': SIM and CONS depend on the texts that are taken together. With --only nothing but the criterion that is trained
for is measured. With several --seeds IvRA and SMaT are trained anew with each, and a figure is the mean over the seeds
+- its standard error, as in the paper's Tables 1 to 4. Accuracies are on all test texts. Behind a method that explains
the same classifier as IvRA (SMaT, too, where only modules were trained) stands the difference of the criterion, IvRA's
less its own, text by text, with its standard error over the texts. Exits with 1 where IvRA is not the best like with
like for all but one of the criteria, or loses 1.5
points of accuracy or more for sim or suff.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from explearn.core.attribution import Attribution
from explearn.core.compute import ComputeOptions
from explearn.core.examples import Example
from explearn.lens.representations import aggregate_states, word_embeddings
from explearn.methods.ivra.explainer import IvRA, SMaT
from explearn.methods.registry import get_explainer
from explearn.metrics.consistency import consistency
from explearn.metrics.faithfulness import faithfulness
from explearn.metrics.params import EvaluateParams
from explearn.metrics.simulatability import simulatability
from explearn.predictors.loading import quiet_transformers
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import load_classifier
from explearn_study.workspace import Workspace

CRITERIA = ("sim", "comp", "suff", "cons")
METHODS = ("attention_mean", "raw_attention", "input_x_gradient", "integrated_gradients", "lime")

ACCURACY_LIMIT = 0.015
"""Largest loss of accuracy for the criteria of ACCURATE, exclusive."""
ACCURATE = ("sim", "suff")


@dataclass(frozen=True)
class Measured:
    """One method: each criterion's metric, and its values text by text."""

    values: dict[str, float]
    by_text: dict[str, NDArray[np.float64]]
    by_seed: tuple[dict[str, float], ...] = ()

    def figure(self, criterion: str) -> str:
        """The metric, with its standard error where there are several seeds."""
        each = [values[criterion] for values in self.by_seed]
        error = f" +- {np.std(each, ddof=1) / len(each) ** 0.5:.3f}" if len(each) > 1 else ""
        return f"{criterion} {self.values[criterion]:+.3f}{error}"


def mean_over(parts: Sequence[Measured]) -> Measured:
    """Mean over the seeds, of each metric and of its values text by text."""
    return Measured(
        {name: float(np.mean([part.values[name] for part in parts])) for name in parts[0].values},
        {name: np.mean([part.by_text[name] for part in parts], axis=0) for name in parts[0].by_text},
        tuple(part.values for part in parts),
    )


def measure_groups(
    classifier: Predictor,
    texts: Sequence[Example],
    found: Mapping[str, Sequence[Attribution]],
    groups: int,
    criteria: Sequence[str],
) -> dict[str, Measured]:
    """Mean over groups of texts that follow one another, equal in size."""
    size = len(texts) // groups
    parts = [slice(first, first + size) for first in range(0, groups * size, size)]
    taken = [measure(classifier, texts[part], {m: f[part] for m, f in found.items()}, criteria) for part in parts]
    return {
        method: Measured(
            {name: float(np.mean([group[method].values[name] for group in taken])) for name in criteria},
            {name: np.concatenate([group[method].by_text[name] for group in taken]) for name in criteria},
        )
        for method in found
    }


def measure(
    classifier: Predictor,
    texts: Sequence[Example],
    found: Mapping[str, Sequence[Attribution]],
    criteria: Sequence[str],
) -> dict[str, Measured]:
    encodings = classifier.read(texts)
    scores = {method: [a.scores for a in rows] for method, rows in found.items()}
    classes = [classifier.labels.index(label) for label in classifier.predict(texts)]
    by_text: dict[str, dict[str, NDArray[np.float64]]] = {method: {} for method in found}
    values: dict[str, dict[str, float]] = {method: {} for method in found}
    if "sim" in criteria:
        simulated = simulatability(word_embeddings(classifier, encodings), classes, scores)
        for method in found:
            by_text[method]["sim"] = simulated[method].gain
    if {"comp", "suff"} & set(criteria):
        originals = dict(zip([e.id for e in texts], encodings, strict=True))
        faithful = faithfulness(classifier, originals, found, EvaluateParams())
        for method in found:
            by_text[method]["comp"] = faithful[method].values["aopc_comprehensiveness"]
            by_text[method]["suff"] = faithful[method].values["aopc_sufficiency"]
    for method in found:
        values[method] = {name: float(each.mean()) for name, each in by_text[method].items()}
    if "cons" in criteria:
        states = aggregate_states(classifier, encodings)
        for method, consistent in consistency(states, scores).items():
            by_text[method]["cons"] = np.asarray(consistent.values)
            values[method]["cons"] = consistent.figure or 0.0
    return {method: Measured(values[method], by_text[method]) for method in found}


def accuracy(classifier: Predictor, texts: Sequence[Example]) -> float:
    return float(np.mean([label == text.label for label, text in zip(classifier.predict(texts), texts, strict=True)]))


def difference(first: Measured, second: Measured, criterion: str) -> str:
    gaps = first.by_text[criterion] - second.by_text[criterion]
    return f"{np.nanmean(gaps):+.3f} +- {np.nanstd(gaps) / len(gaps) ** 0.5:.3f}"


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    for name, value in changes.items():
        base[name] = merged(dict(base.get(name, {})), value) if isinstance(value, dict) else value
    return base


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--task", required=True)
    parser.add_argument("--criteria", default=",".join(CRITERIA))
    parser.add_argument("--methods", default=",".join(METHODS), help="beside ivra")
    parser.add_argument("--no-smat", action="store_true", help="leave SMaT out")
    parser.add_argument("--norm", choices=("softmax", "sparsemax"), help="of IvRA and SMaT (default: each its own)")
    parser.add_argument("--train", type=int, help="training texts (default: all)")
    parser.add_argument("--validation", type=int, help="validation texts (default: all)")
    parser.add_argument("--texts", type=int, default=100, help="test texts that are explained, in a group")
    parser.add_argument("--groups", type=int, default=1, help="groups of test texts that are explained")
    parser.add_argument("--only", action="store_true", help="measure only the criterion that is trained for")
    parser.add_argument("--accuracy-texts", type=int, help="test texts that accuracy is taken on (default: all)")
    parser.add_argument("--lime-samples", type=int, default=500)
    parser.add_argument("--ig-steps", type=int, default=50)
    parser.add_argument("--seeds", default="13", help="IvRA and SMaT are trained with each")
    parser.add_argument("--options", type=json.loads, default={}, help="JSON: other options of IvRA and SMaT")
    return parser.parse_args()


def main() -> None:
    options = read_options()
    quiet_transformers()
    workspace = Workspace(options.root)
    original = load_classifier(workspace.classifier(options.task), ComputeOptions(device="cpu"))
    train = workspace.read_examples(options.task, "train")[: options.train]
    validation = workspace.read_examples(options.task, "validation")[: options.validation]
    examples = workspace.read_examples(options.task, "test")
    test = examples[: options.accuracy_texts]
    texts = examples[: options.texts * options.groups]
    if len(texts) < options.texts * options.groups:
        sys.exit(f"{options.groups} groups of {options.texts} texts; the task has {len(texts)} test texts")
    before = accuracy(original, test)
    print(
        f"{options.task}: {len(train)} training, {len(validation)} validation texts, {len(texts)} explained; accuracy "
        f"{before:.3f} on {len(test)}; torch {torch.__version__}, {torch.get_num_threads()} threads",
        flush=True,
    )
    settings = {"lime": {"samples": options.lime_samples}, "integrated_gradients": {"steps": options.ig_steps}}
    given = {name: settings.get(name, {}) for name in options.methods.split(",")}
    untouched = {method: get_explainer(method, **chosen) for method, chosen in given.items()}
    criteria = options.criteria.split(",")
    measured = criteria if options.only else CRITERIA
    explained = {m: list(e.explain(original, texts)) for m, e in untouched.items()}
    elsewhere = measure_groups(original, texts, explained, options.groups, measured)
    won, leading, failed = 0, 0, False
    for criterion in criteria:
        of_seeds: dict[str, list[Measured]] = {}
        explains: dict[str, str] = {}
        losses = []
        for kind, seed in product((IvRA,) if options.no_smat else (IvRA, SMaT), map(int, options.seeds.split(","))):
            name = kind.__name__.lower()
            norm = {"norm": options.norm} if options.norm else {}
            trained = merged({"criteria": [criterion], **norm}, options.options)
            start = time.perf_counter()
            explainer = kind(**trained, seed=seed).fit(original, train, validation=validation)
            spent = time.perf_counter() - start
            classifier = explainer.classifier
            assert classifier is not None
            after = accuracy(classifier, test)
            print(
                f"{criterion}: {name} ({explainer.options.norm}, seed {seed}) trained in {spent:.0f} s, "
                f"best epoch {explainer.best_epoch}, accuracy {after - before:+.3f}"
            )
            for number, entry in enumerate(explainer.history):
                shown = {**entry["losses"], "accuracy": entry["accuracy"], "metric": entry["criteria"][criterion]}
                print(f"  epoch {number}: " + ", ".join(f"{key} {value:.3f}" for key, value in shown.items()))
            sys.stdout.flush()
            explainers: dict[str, Any] = {name: explainer}
            if kind is IvRA:
                losses.append(before - after)
                explainers |= {method: get_explainer(method, **chosen) for method, chosen in given.items()}
            found = {method: list(e.explain(classifier, texts)) for method, e in explainers.items()}
            taken = [criterion] if options.only else CRITERIA
            for method, row in measure_groups(classifier, texts, found, options.groups, taken).items():
                of_seeds.setdefault(method, []).append(row)
                explains[method] = explains.get(method, "") + classifier.fingerprint
        failed |= criterion in ACCURATE and float(np.mean(losses)) >= ACCURACY_LIMIT
        rows = {method: mean_over(parts) for method, parts in of_seeds.items()}
        sign = -1 if criterion == "suff" else 1
        order = sorted(rows, key=lambda method: -sign * rows[method].values[criterion])
        won += order[0] == "ivra"
        for method in order:
            figures = "  ".join(map(rows[method].figure, rows[method].values))
            same = method != "ivra" and explains[method] == explains["ivra"]
            compared = difference(rows["ivra"], rows[method], criterion) if same else ""
            print(f"  {method:22}{figures}  {compared}")
        others = sorted(elsewhere, key=lambda method: -sign * elsewhere[method].values[criterion])
        leading += sign * rows["ivra"].values[criterion] > sign * elsewhere[others[0]].values[criterion]
        figures = ", ".join(f"{method} {elsewhere[method].values[criterion]:+.3f}" for method in others)
        print(f"  on the task's classifier: {figures}")
        sys.stdout.flush()
    print(
        f"ivra is the best for {won} of {len(criteria)} criteria like with like, "
        f"ahead of the methods on the task's classifier for {leading}"
    )
    sys.exit(failed or won < max(1, len(criteria) - 1))


if __name__ == "__main__":
    main()
