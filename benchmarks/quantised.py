"""Quantised weights against plain ones: how often the class is the same, and how alike explanations are.

    python benchmarks/quantised.py [--root .] [--tasks reviews,civility,topics] [--texts 100]

After `make repro`, with the extra `quantized`. For the precisions nf4 and int8, on the first test texts of each task:
texts of the same class as in fp32, and Pearson's correlation of input x gradient with that in fp32, mean over texts.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from explearn.core.compute import ComputeOptions, Precision
from explearn.methods.registry import get_explainer
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import load_classifier
from explearn_study.example_files import read_examples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--tasks", default="reviews,civility,topics")
    parser.add_argument("--texts", type=int, default=100)
    options = parser.parse_args()
    method = get_explainer("input_x_gradient", output="logit")
    for task in options.tasks.split(","):
        texts = read_examples(options.root / "data" / "examples" / task / "test.parquet")[: options.texts]

        def load(precision: Precision, task: str = task) -> Predictor:
            folder = options.root / "data" / "classifiers" / task
            return load_classifier(folder, ComputeOptions(device="cpu", precision=precision))

        plain = load("fp32")
        classes = plain.predict(texts)
        scores = [one.filled() for one in method.explain(plain, texts, classes)]
        for precision in ("nf4", "int8"):
            quantised = load(precision)
            same = np.mean(np.array(quantised.predict(texts)) == np.array(classes))
            alike = []
            for plain_scores, attribution in zip(scores, method.explain(quantised, texts, classes), strict=True):
                alike.append(np.corrcoef(plain_scores, attribution.filled())[0, 1])
            mean = np.nanmean(alike)
            print(f"{task}, {precision}: {same:.0%} of {len(texts)} of the same class, correlation {mean:.3f}")


if __name__ == "__main__":
    main()
