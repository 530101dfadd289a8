"""What methods for classifiers that cost money reach in comprehensiveness, relative to LIME with 500 requests a text.

    python benchmarks/few_requests.py [--root .] [--tasks reviews,civility,topics] [--texts 8]
        [--methods hierarchical,kernel_shap] [--passes 60] [--kept build/few_requests]

`--root` is a workspace after the stage finetune. Test texts of a label are joined, at random, to texts of about 100
words. The classifier answers as a function, so that no method looks inside. Prints the most requests for a text, AOPC
comprehensiveness, and its share of LIME's, for each task and all of them. `--kept` keeps LIME's scores.
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

        def predict_proba(texts: Sequence[str]) -> NDArray[np.float64]:
            self.asked += len(texts)
            return classifier.predict_proba([text or "." for text in texts])

        super().__init__(predict_proba, classifier.labels)
        self.asked = 0


def joined_texts(workspace: Workspace, task: str, count: int) -> list[str]:
    """Return texts of about WORDS words, each of test texts of one label, the labels in turn."""
    by_label = defaultdict(list)
    for example in workspace.read_examples(task, "test"):
        by_label[example.label].append(example.text)
    rng = random.Random(13)
    texts = []
    for number in range(count):
        of_label = list(by_label.values())[number % len(by_label)]
        parts: list[str] = []
        for part in rng.sample(of_label, len(of_label)):
            if len(" ".join([*parts, part]).split()) <= WORDS:
                parts.append(part)
        texts.append(" ".join(parts))
    return texts


def lime_scores(classifier: Counted, text: str, kept: Path) -> explearn.Attribution:
    """Return LIME's scores of a text, from the folder if they are there."""
    if kept.exists():
        return explearn.Attribution.from_dict(json.loads(kept.read_text(encoding="utf-8")))
    attribution = explearn.explain(classifier, text, "lime")
    write_json(kept, attribution.to_dict())
    return attribution


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--tasks", default="reviews,civility,topics")
    parser.add_argument("--texts", type=int, default=8)
    parser.add_argument("--methods", default="hierarchical,kernel_shap")
    parser.add_argument("--passes", type=int, default=60)
    parser.add_argument("--kept", type=Path, default=Path("build/few_requests"))
    options = parser.parse_args()
    workspace = Workspace(options.root)
    values = defaultdict(list)
    requests: dict[str, int] = defaultdict(int)
    for task in options.tasks.split(","):
        classifier = Counted(options.root / "data" / "classifiers" / task)
        for number, text in enumerate(joined_texts(workspace, task, options.texts)):
            attributions = {"lime": lime_scores(classifier, text, options.kept / f"{task}-{number}.json")}
            for method in options.methods.split(","):
                chosen = {"passes": options.passes} if method == "hierarchical" else {"samples": options.passes}
                before = classifier.asked
                attributions[method] = explearn.explain(classifier, text, method, **chosen)
                requests[method] = max(requests[method], classifier.asked - before)
            for method, attribution in attributions.items():
                judged = explearn.evaluate(classifier, [attribution], metrics=[METRIC])
                values[method, task].append(float(judged.figures[judged.methods[0]][METRIC]))
    print(f"{'task':<12} {'method':<14} {'texts':>5} {'requests':>8} {'AOPC':>6} {'of LIME':>8}")
    for task in [*options.tasks.split(","), ""]:
        lime = np.concatenate([values[key] for key in values if key[0] == "lime" and task in ("", key[1])]).mean()
        for method in ["lime", *options.methods.split(",")]:
            aopc = np.concatenate([values[key] for key in values if key[0] == method and task in ("", key[1])])
            print(
                f"{task or 'all':<12} {method:<14} {len(aopc):>5} {requests[method] or 500:>8} {aopc.mean():>6.3f} "
                f"{aopc.mean() / lime:>8.3f}"
            )


if __name__ == "__main__":
    main()
