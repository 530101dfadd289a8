"""How fast lime and shap are against their libraries called by hand: same model, samples, seed, fp32, same scores.

    python benchmarks/perturbation_speed.py [--classifier FOLDER] [--data FILE.jsonl] [--texts 64] [--runs 4]

* lime (1,000 samples) and shap (partition, 500 evaluations), each against the library
  "as documented": a transformers pipeline as the prediction function, one call a text; and
  "batched by hand": one call a text, the prediction function pads and runs batches of 64 under inference mode.
* shap asks for six copies at a time, so batches of 64 stay nearly empty; "batched by hand, batch_size=64" makes it
  ask for 64. It then opens the hierarchy in another order, so it is compared with our shap under the same option.
* precision auto (bf16 where the device computes it natively) against our own fp32; scores differ by its rounding.

The texts are dealt to the runs, each run times both sides on its share, and the median of the runs' ratios is printed
with the largest difference between scores. Exits with 1 where a ratio is below what is asked for or a score differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import shap
import torch
import transformers
from lime.lime_text import LimeTextExplainer

from _timing import CORPUS, load_classifier, load_texts, paired
from explearn.methods.base.registry import get_explainer
from explearn.model.classifier import Classifier

SAMPLES, MAX_EVALS, SEED = 1000, 500, 13

AT_LEAST = {
    "lime, as documented": 4.0,
    "lime, batched by hand": 2.0,
    "shap, as documented": 4.0,
    "shap, batched by hand": 1.5,
    "shap, batched by hand, batch_size=64": 1.0,
    "lime, precision auto": 1.5,
    "shap, precision auto": 1.5,
}

TOLERANCE = 1e-4
"""Largest difference between scores: float32 sums come out differently in batches of another shape."""

Probabilities = Callable[[Sequence[str]], np.ndarray]
Scores = list[np.ndarray]


def pipeline(classifier: Classifier) -> Any:
    return transformers.pipeline(
        "text-classification",
        model=classifier.model,
        tokenizer=classifier.tokenizer,
        device=classifier.device,
        top_k=None,
    )


def through_pipeline(classifier: Classifier) -> Probabilities:
    pipe = pipeline(classifier)

    def probabilities(texts: Sequence[str]) -> np.ndarray:
        rows = ({found["label"]: found["score"] for found in row} for row in pipe(list(texts)))
        return np.array([[row[label] for label in classifier.labels] for row in rows])

    return probabilities


def in_batches(classifier: Classifier) -> Probabilities:
    @torch.inference_mode()
    def probabilities(texts: Sequence[str]) -> np.ndarray:
        parts = []
        for start in range(0, len(texts), 64):
            part = [str(text) for text in texts[start : start + 64]]
            encoded = classifier.tokenizer(part, padding=True, truncation=True, return_tensors="pt")
            parts.append(classifier.model(**encoded.to(classifier.device)).logits.softmax(-1).cpu())
        return torch.cat(parts).double().numpy()

    return probabilities


def lime_alone(classifier: Classifier, texts: Sequence[str], probabilities: Probabilities) -> Scores:
    found = []
    for text in texts:
        words = len(text.split())
        explainer = LimeTextExplainer(split_expression=r"\s+", bow=False, mask_string="", random_state=SEED)
        explanation = explainer.explain_instance(
            text, probabilities, top_labels=1, num_features=words, num_samples=SAMPLES
        )
        scores = np.zeros(words)
        for word, weight in explanation.local_exp[explanation.top_labels[0]]:
            scores[word] = weight
        found.append(scores)
    return found


def shap_alone(classifier: Classifier, texts: Sequence[str], model: Any, **options: Any) -> Scores:
    explainer = shap.Explainer(model, shap.maskers.Text(classifier.tokenizer))
    found = []
    for text in texts:
        np.random.seed(SEED)
        explanation = explainer([text], max_evals=MAX_EVALS, silent=True, **options)
        whole = explanation.values[0].sum(0) + explanation.base_values[0]
        found.append(explanation.values[0][1:-1, whole.argmax()])
    return found


def compare(
    name: str,
    ours: Callable[[Sequence[str]], Scores],
    peer: Callable[[Sequence[str]], Scores],
    shares: list[list[str]],
) -> bool:
    gap = 0.0
    found: list[Scores] = []
    turns = cycle([peer, ours])
    share = iter([share for share in shares for _ in range(2)])

    def turn() -> None:
        found.append(next(turns)(next(share)))

    ratio = paired(turn, turn, len(shares))
    for a, b in zip(found[::2], found[1::2], strict=True):
        gap = max(gap, *(float(np.abs(x - y).max()) for x, y in zip(a, b, strict=True)))
    print(f"{name}: {ratio}, asked {AT_LEAST[name]}; largest gap {gap:.1e}", flush=True)
    return ratio.median >= AT_LEAST[name] and (gap <= TOLERANCE or "precision" in name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classifier", type=Path, help="folder of a classifier (default: the embedded encoder)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data", type=Path, default=CORPUS, help="JSON Lines with a field text or words")
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--runs", type=int, default=4, help="paired runs; each gets its share of the texts")
    parser.add_argument("--only", choices=list(AT_LEAST), action="append", help="comparisons to make (default: all)")
    options = parser.parse_args()
    classifier = load_classifier(options.classifier, options.device)
    texts = load_texts(options.data, options.texts)
    mean = np.mean([len(encoding) for encoding in classifier.encode(texts)])
    print(
        f"torch {torch.__version__}, transformers {transformers.__version__}, shap {shap.__version__}, "
        f"{classifier.device}, {torch.get_num_threads()} threads, {len(texts)} texts of {mean:.0f} sub-tokens in "
        f"{options.runs} paired runs",
        flush=True,
    )
    faster = load_classifier(options.classifier, options.device, "auto")
    pipe, by_pipeline, by_batches = pipeline(classifier), through_pipeline(classifier), in_batches(classifier)

    def with_us(name: str, of: Classifier = classifier, **chosen: Any) -> Callable[[Sequence[str]], Scores]:
        method = get_explainer(name, seed=SEED, **chosen)
        scores = "scores" if name == "lime" else "token_scores"
        return lambda part: [getattr(found, scores) for found in method.explain(of, part)]

    lime, our_shap = with_us("lime", samples=SAMPLES), with_us("shap", max_evals=MAX_EVALS)
    sides = {
        "lime, as documented": (lime, lambda part: lime_alone(classifier, part, by_pipeline)),
        "lime, batched by hand": (lime, lambda part: lime_alone(classifier, part, by_batches)),
        "shap, as documented": (our_shap, lambda part: shap_alone(classifier, part, pipe)),
        "shap, batched by hand": (our_shap, lambda part: shap_alone(classifier, part, by_batches)),
        "shap, batched by hand, batch_size=64": (
            with_us("shap", max_evals=MAX_EVALS, batch_size=64),
            lambda part: shap_alone(classifier, part, by_batches, batch_size=64),
        ),
        "lime, precision auto": (with_us("lime", faster, samples=SAMPLES), lime),
        "shap, precision auto": (with_us("shap", faster, max_evals=MAX_EVALS), our_shap),
    }
    passed = True
    for name, (us, peer) in sides.items():
        if options.only is None or name in options.only:
            # numba compiles shap's loops at their first use.
            us(["good"]), peer(["good"])
            passed &= compare(name, us, peer, [texts[i :: options.runs] for i in range(options.runs)])
    sys.exit(not passed)


if __name__ == "__main__":
    main()
