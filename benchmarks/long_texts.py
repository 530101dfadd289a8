"""Long texts: sentences first, then the words of the best ones, against all words and against AttnLRP.

    python benchmarks/long_texts.py [--root .] [--task reviews] [--texts 4] [--words 400] [--passes 80]

After `make repro`, with the extra `scripts`. Test texts in random order make each text. A method scores the sentences
(sampling methods with a third of the passes), then the words of the sentences of the highest score a word, as many as
there are passes for; SolvEx's passes grow with the square of the words, so it gets the square root of twice that, and
its sentences from occlusion. All other words follow in the order of their sentences' score a word.

Prints AOPC comprehensiveness (1, 5, 10, 20 and 50 % of the words deleted), also as a share of occlusion's on all words.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explearn.core.compute import ComputeOptions
from explearn.core.storage import read_examples
from explearn.core.words import Span, word_spans
from explearn.judge.faithfulness import faithfulness
from explearn.judge.params import EvaluateParams
from explearn.methods.registry import get_explainer
from explearn.model.classifier import Classifier

SAMPLES = {"lime": "samples", "kernel_shap": "samples", "shap": "max_evals"}
OPTIONS: dict[str, dict[str, Any]] = {"shap": {"level": "word"}, "solvex": {"beam": 1, "metric": "comprehensiveness"}}


def coarse_to_fine(name: str, classifier: Classifier, text: str, passes: int) -> NDArray[np.float64]:
    """Scores of the words: those inside the best sentences by the method itself, above all others."""

    def samples(count: int) -> dict[str, Any]:
        return {SAMPLES[name]: count} if name in SAMPLES else {}

    first = "occlusion" if name == "solvex" else name
    third = passes // 3
    (coarse,) = get_explainer(first, **samples(third), **OPTIONS.get(first, {})).explain(
        classifier, [text], unit="sentence"
    )
    remaining = passes - (third if name in SAMPLES else len(coarse.words)) - 2
    words = word_spans(text)
    inside = [[w for w, (a, b) in enumerate(words) if start <= a and b <= end] for start, end in coarse.spans]
    by_word = coarse.filled() / [max(1, len(members)) for members in inside]
    scores = np.zeros(len(words))
    best: list[int] = []
    for sentence in np.argsort(-by_word, kind="stable"):
        scores[inside[sentence]] = by_word[sentence]
        if len(best) + len(inside[sentence]) <= ((2 * remaining) ** 0.5 if name == "solvex" else remaining):
            best += inside[sentence]
    spans: list[Span] = [words[word] for word in sorted(best)]
    (fine,) = get_explainer(name, **samples(remaining), **OPTIONS.get(name, {})).explain(
        classifier, [text], targets=[coarse.target], unit=lambda _: spans
    )
    scores[sorted(best)] = scores.max() + fine.filled() - fine.filled().min()
    return scores


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
    parser.add_argument("--passes", type=int, default=80)
    options = parser.parse_args()
    data = options.root / "data"
    classifier = Classifier.from_pretrained(data / "classifiers" / options.task, ComputeOptions(device="cpu"))
    classifier.tokenizer.model_max_length = classifier.model.config.max_position_embeddings
    examples = read_examples(data / "examples" / options.task / "test.parquet")
    texts = long_texts([example.text for example in examples], options.texts, options.words)
    encodings = {
        str(number): replace(one, example_id=str(number)) for number, one in enumerate(classifier.encode(texts))
    }
    methods = {name: list(get_explainer(name).explain(classifier, texts)) for name in ("occlusion", "attn_lrp")}
    for name in ("occlusion", "lime", "shap", "kernel_shap", "solvex"):
        scores = [coarse_to_fine(name, classifier, text, options.passes) for text in texts]
        methods[f"{name}, sentences first"] = [
            replace(one, scores=values.astype(np.float32))
            for one, values in zip(methods["occlusion"], scores, strict=True)
        ]
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
