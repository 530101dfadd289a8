"""How long the stage evaluate takes, and how much it gains by judging all methods of a task together.

    python benchmarks/evaluation_speed.py [--classifiers FOLDER] [--texts 100] [--methods 25] [--alone 5] [--tasks ...]

Evaluates the corpus's tasks with all metrics but simulatability, whose students are trained, not evaluated. Scores are
those of the quick methods; costly methods are stood in for by a quick one's scores with noise, as their order of words
is like that of others, but not the same. Then `--alone` of the methods, spread over the roster, are evaluated one at a
time, and what all would take so is extrapolated. Times are processor seconds of all threads, which other processes
disturb less than the clock; with two threads on two free cores the clock shows about half. Exits with 1 where the tasks
take more than 6 minutes of two cores together, or less than twice as long one method at a time.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from _timing import CORPUS, load_classifier, load_texts
from explearn.core.records import Attribution, Example
from explearn.judge.evaluate import evaluate_task
from explearn.judge.params import EvaluateParams, SimulatabilityParams
from explearn.lens.representations import aggregate_states
from explearn.methods.base.registry import get_explainer
from explearn.methods.names import get_info, list_explainers
from explearn.model.classifier import Classifier

SECONDS, CORES, FACTOR = 360, 2, 2.0
COST = {
    "seconds": 1.0,
    "forward_seconds": 1.0,
    "texts": 1,
    "peak_memory_mb": 1.0,
    "forward_passes": 1,
    "backward_passes": 0,
}
PARAMS = EvaluateParams(simulatability=SimulatabilityParams(enabled=False))


def roster(count: int) -> list[str]:
    """Baselines, quick ones first."""
    baselines = [name for name in list_explainers() if not get_info(name).learned]
    names = sorted(baselines, key=lambda name: get_info(name).costly)
    if len(names) < count:
        raise SystemExit(f"the registry has {len(names)} baselines; expected {count}")
    return names[:count]


def attribute(classifier: Classifier, examples: list[Example], names: list[str]) -> dict[str, list[Attribution]]:
    rng = np.random.default_rng(13)
    found: dict[str, list[Attribution]] = {}
    for name in names:
        if get_info(name).costly:
            like = found[list(found)[len(found) % 10]]
            found[name] = [
                replace(a, method=name, scores=a.scores * rng.uniform(0.5, 1.5, a.scores.shape).astype(np.float32))
                for a in like
            ]
        else:
            found[name] = list(get_explainer(name).explain(classifier, examples))
    return found


def evaluate(
    classifier: Classifier, examples: list[Example], attributions: dict[str, list[Attribution]], states: np.ndarray
) -> float:
    """Processor seconds of judging these methods together."""
    start = time.process_time()
    evaluate_task(
        task="benchmark",
        attributions=attributions,
        costs=dict.fromkeys(attributions, COST),
        examples={example.id: example for example in examples},
        gold={example.id: np.arange(len(example.words)) % 4 == 0 for example in examples},
        k=3,
        positive_rate=0.2,
        classifier=classifier,
        params=PARAMS,
        seed=13,
        binarisation=dict.fromkeys(attributions, "top_k"),
        thresholds={},
        states={example.id: state for example, state in zip(examples, states, strict=True)},
    )
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--classifiers", type=Path, help="folder of classifiers by task (default: the embedded encoder)"
    )
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--methods", type=int, default=25)
    parser.add_argument("--alone", type=int, default=5, help="methods timed one at a time")
    parser.add_argument("--tasks", nargs="+", default=["reviews", "grammar", "civility", "topics"])
    options = parser.parse_args()
    names = roster(options.methods)
    together = apart = 0.0
    for task in options.tasks:
        classifier = load_classifier(options.classifiers / task if options.classifiers else None)
        examples = [
            Example(id=str(i), words=tuple(text.split()), label=classifier.labels[0], split="test", task=task)
            for i, text in enumerate(load_texts(CORPUS.with_name(f"{task}.jsonl"), options.texts))
        ]
        attributions = attribute(classifier, examples, names)
        # Plausibility wants texts that the classifier gets right.
        predicted = [attribution.predicted for attribution in attributions[names[0]]]
        examples = [replace(e, label=label) for e, label in zip(examples, predicted, strict=True)]
        states = aggregate_states(classifier, classifier.encode(examples))
        chosen = names[:: max(1, len(names) // options.alone)][: options.alone]
        half = len(chosen) // 2
        # In turn, so that a drift of the machine's speed touches both.
        alone = sum(evaluate(classifier, examples, {n: attributions[n]}, states) for n in chosen[:half])
        whole = evaluate(classifier, examples, attributions, states)
        alone += sum(evaluate(classifier, examples, {n: attributions[n]}, states) for n in chosen[half:])
        one_by_one = alone / len(chosen) * len(names)
        print(f"{task}: together {whole:.0f} s, one by one {one_by_one:.0f} s: {one_by_one / whole:.1f} x", flush=True)
        together, apart = together + whole, apart + one_by_one
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {len(names)} methods, {options.texts} texts of "
        f"{len(options.tasks)} tasks: {together:.0f} processor seconds, at most {SECONDS * CORES}; "
        f"{apart / together:.1f} x one by one, at least {FACTOR}"
    )
    sys.exit(together > SECONDS * CORES or apart / together < FACTOR)


if __name__ == "__main__":
    main()
