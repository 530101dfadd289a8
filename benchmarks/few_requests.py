"""What `hierarchical`, with at most 60 requests a text, reaches of the comprehensiveness of LIME with 500.

    python benchmarks/few_requests.py [--root .] [--tasks reviews,civility,topics] [--texts 8] [--one-label]
        [--kept build/few_requests]

`--root` is a workspace after the stage finetune. Test texts are joined, at random, to texts of about 100 words; with
`--one-label` each of texts of one label, so that every sentence says the same. The classifier answers as a function, so
that no method looks inside. Prints the most requests for a text, AOPC comprehensiveness, and its share of LIME's.
`--kept` keeps LIME's scores.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import explearn
from explearn.core.writing import write_json
from explearn_study.workspace import Workspace

METRIC = "aopc_comprehensiveness"
WORDS = 100
"""A text is joined until it has nearly as many words."""


class Counted(explearn.FunctionPredictor):
    """A classifier as a function that counts the texts it is asked about."""

    def __init__(self, folder: Path) -> None:
        classifier = explearn.load_classifier(folder)
        self.asked = 0

        def predict_proba(texts: Sequence[str]) -> NDArray[np.float64]:
            self.asked += len(texts)
            return classifier.predict_proba([text or "." for text in texts])

        super().__init__(predict_proba, classifier.labels)


def joined_texts(workspace: Workspace, task: str, count: int, one_label: bool) -> list[str]:
    """Return texts of about WORDS words, joined of test texts; of one label each, the labels in turn, or of any."""
    groups = defaultdict(list)
    for example in workspace.read_examples(task, "test"):
        groups[example.label if one_label else ""].append(example.text)
    rng = random.Random(13)
    texts = []
    for number in range(count):
        group = list(groups.values())[number % len(groups)]
        parts: list[str] = []
        for part in rng.sample(group, len(group)):
            if len(" ".join([*parts, part]).split()) <= WORDS:
                parts.append(part)
        texts.append(" ".join(parts))
    return texts


def lime_scores(classifier: Counted, text: str, kept: Path) -> explearn.Attribution:
    """Return LIME's scores of a text, from the file if it is there."""
    if not kept.exists():
        (attribution,) = explearn.get_explainer("lime").explain(classifier, [text])
        write_json(kept, attribution.to_dict())
    return explearn.Attribution.from_dict(json.loads(kept.read_text(encoding="utf-8")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--tasks", default="reviews,civility,topics")
    parser.add_argument("--texts", type=int, default=8)
    parser.add_argument("--one-label", action="store_true")
    parser.add_argument("--kept", type=Path, default=Path("build/few_requests"))
    options = parser.parse_args()
    workspace = Workspace(options.root)
    kind = "one" if options.one_label else "any"
    values: list[list[float]] = []
    most = 0
    print(f"{'task':<12} {'texts':>5} {'requests':>8} {'AOPC':>6} {'of LIME':>8}")
    for task in options.tasks.split(","):
        classifier = Counted(options.root / "data" / "classifiers" / task)
        for number, text in enumerate(joined_texts(workspace, task, options.texts, options.one_label)):
            lime = lime_scores(classifier, text, options.kept / f"{task}-{kind}-{number}.json")
            before = classifier.asked
            (hierarchical,) = explearn.get_explainer("hierarchical").explain(classifier, [text])
            most = max(most, classifier.asked - before)
            row = []
            for attribution in (hierarchical, lime):
                evaluation = explearn.evaluate(classifier, [attribution], metrics=[METRIC])
                row.append(float(evaluation.by_text[METRIC][attribution.method][0]))
            values.append(row)
        aopc, lime_aopc = np.mean(values[-options.texts :], axis=0)
        print(f"{task:<12} {options.texts:>5} {most:>8} {aopc:>6.3f} {aopc / lime_aopc:>8.3f}")
    aopc, lime_aopc = np.mean(values, axis=0)
    print(f"{'all':<12} {len(values):>5} {most:>8} {aopc:>6.3f} {aopc / lime_aopc:>8.3f}")


if __name__ == "__main__":
    main()
