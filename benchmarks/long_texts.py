"""Long texts: AttnLRP against leaving out each word.

    python benchmarks/long_texts.py [--root .] [--task reviews] [--texts 4] [--words 400]

After `make repro`. Test texts in random order make each text. Prints AOPC comprehensiveness (1, 5, 10, 20 and 50 % of
the words deleted), also as a share of occlusion's.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from explearn.core.compute import ComputeOptions
from explearn.methods.registry import get_explainer
from explearn.metrics.faithfulness import faithfulness
from explearn.metrics.params import EvaluateParams
from explearn.predictors.pretrained import load_classifier
from explearn_study.example_files import read_examples


def long_texts(texts: Sequence[str], count: int, words: int) -> list[str]:
    """Texts of so many words, of `texts` in random order."""
    rng = np.random.default_rng(0)
    return [
        " ".join(" ".join(texts[place] for place in rng.permutation(len(texts))).split()[:words]) for _ in range(count)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--task", default="reviews")
    parser.add_argument("--texts", type=int, default=4)
    parser.add_argument("--words", type=int, default=400)
    options = parser.parse_args()
    data = options.root / "data"
    classifier = load_classifier(data / "classifiers" / options.task, ComputeOptions(device="cpu"))
    classifier.transformer.tokenizer.model_max_length = classifier.transformer.model.config.max_position_embeddings
    examples = read_examples(data / "examples" / options.task / "test.parquet")
    texts = long_texts([example.text for example in examples], options.texts, options.words)
    encodings = {str(number): replace(one, example_id=str(number)) for number, one in enumerate(classifier.read(texts))}
    methods = {name: list(get_explainer(name).explain(classifier, texts)) for name in ("occlusion", "attn_lrp")}
    for attributions in methods.values():
        for number, (one, name) in enumerate(zip(attributions, encodings, strict=True)):
            attributions[number] = replace(one, example_id=name)
    judged = faithfulness(classifier, encodings, methods, EvaluateParams(percents=[1, 5, 10, 20, 50]))
    whole = judged["occlusion"].values["aopc_comprehensiveness"].mean()
    for name, result in judged.items():
        mean = result.values["aopc_comprehensiveness"].mean()
        print(f"{name:30} {mean:.3f} {mean / whole:.2f}")


if __name__ == "__main__":
    main()
