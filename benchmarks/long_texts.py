"""What one method reaches of another's comprehensiveness on long texts.

    python benchmarks/long_texts.py attn_lrp occlusion --tasks reviews --words 400 --texts 3
    python benchmarks/long_texts.py hierarchical lime --function [--one-label]

After `make repro`. Test texts are joined at random until a text has nearly `--words` words; with `--one-label` texts of
one label each, so that every sentence says the same. With `--function` the classifier is a function of texts, so that
no method looks inside, and the most requests for one text are printed. Prints AOPC comprehensiveness of both methods
(1, 5, 10, 20 and 50 % of the words deleted), and the first as a share of the second.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import explearn
from explearn_study.workspace import Workspace

METRIC = "aopc_comprehensiveness"


class Counted(explearn.FunctionPredictor):
    """A classifier as a function that counts the texts it is asked about."""

    def __init__(self, classifier: explearn.Predictor) -> None:
        self.asked = 0

        def predict_proba(texts: Sequence[str]) -> NDArray[np.float64]:
            self.asked += len(texts)
            return classifier.predict_proba([text or "." for text in texts])

        super().__init__(predict_proba, classifier.labels)


def load_classifier(folder: Path, function: bool) -> explearn.Predictor:
    """Load a classifier that reads as many sub-tokens as its model can."""
    classifier = explearn.load_classifier(folder, device="cpu")
    transformer = classifier.transformer
    transformer.tokenizer.model_max_length = transformer.model.config.max_position_embeddings
    return Counted(classifier) if function else classifier


def joined_texts(workspace: Workspace, task: str, options: argparse.Namespace) -> list[str]:
    """Return texts that are joined of test texts: of one label each, the labels in turn, or of any."""
    groups = defaultdict(list)
    for example in workspace.read_examples(task, "test"):
        groups[example.label if options.one_label else ""].append(example.text)
    pools = list(groups.values())
    draw = random.Random(13)
    texts = []
    for number in range(options.texts):
        pool = pools[number % len(pools)]
        words: list[str] = []
        for part in draw.sample(pool, len(pool)):
            if len(words) + len(part.split()) <= options.words:
                words += part.split()
        texts.append(" ".join(words))
    return texts


def comprehensiveness(classifier: explearn.Predictor, method: str, text: str) -> float:
    attributions = explearn.get_explainer(method).explain(classifier, [text])
    evaluation = explearn.evaluate(classifier, attributions, metrics=[METRIC])
    return float(evaluation.by_text[METRIC][method][0])


def requests(classifier: explearn.Predictor, method: str, text: str) -> int:
    """Return how many requests an explanation takes; 0 where they are not counted."""
    if not isinstance(classifier, Counted):
        return 0
    before = classifier.asked
    explearn.get_explainer(method).explain(classifier, [text])
    return classifier.asked - before


def print_row(name: str, values: Sequence[tuple[float, float]], most: int) -> None:
    first, second = np.mean(values, axis=0)
    print(f"{name:<12} {len(values):>5} {most:>8} {first:>8.3f} {second:>8.3f} {first / second:>8.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", help="method that needs no training")
    parser.add_argument("second", help="method that it is compared with")
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--tasks", default="reviews,civility,topics")
    parser.add_argument("--texts", type=int, default=7, help="of each task")
    parser.add_argument("--words", type=int, default=100)
    parser.add_argument("--one-label", action="store_true")
    parser.add_argument("--function", action="store_true")
    options = parser.parse_args()
    workspace = Workspace(options.root)
    print(f"{'task':<12} {'texts':>5} {'requests':>8} {options.first[:8]:>8} {options.second[:8]:>8} {'share':>8}")
    all_values = []
    all_most = 0
    for task in options.tasks.split(","):
        classifier = load_classifier(workspace.classifier(task), options.function)
        values = []
        most = 0
        for text in joined_texts(workspace, task, options):
            first = comprehensiveness(classifier, options.first, text)
            values.append((first, comprehensiveness(classifier, options.second, text)))
            most = max(most, requests(classifier, options.first, text))
        print_row(task, values, most)
        all_values += values
        all_most = max(all_most, most)
    print_row("all", all_values, all_most)


if __name__ == "__main__":
    main()
