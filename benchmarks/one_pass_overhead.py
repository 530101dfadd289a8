"""What Marker and Reader add to classification: the time of classify + explain over the time of classify alone.

    python benchmarks/one_pass_overhead.py [--classifier FOLDER] [--texts 16] [--runs 15]

Both run the same texts of exactly 128 (then 512) sub-tokens through the same classifier, from strings to results:
`Predictor.predict` against `explain`, which classifies too. Runs alternate, so that a drift of the machine's
speed touches both; the ratio is taken pair by pair and its median printed. For Marker, which reads the attention of
all layers, ExpNet, which reads the last one, and Reader, which reads hidden states. Weights play no part in
the speed, so barely trained ones serve. Exits with 1 where a ratio of Marker or Reader is above its limit.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import transformers

from _timing import load_classifier, seconds
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.task import ListedTask
from explearn.methods.expnet.explainer import ExpNet
from explearn.methods.marker.explainer import Marker
from explearn.methods.reader.explainer import Reader
from explearn.predictors.predictor import Predictor

LIMITS = {128: {"marker": 1.10, "reader": 1.15}, 512: {"marker": 1.15, "reader": 1.15}}
"""Sub-tokens a text -> method -> largest ratio allowed."""


def texts_of_length(classifier: Predictor, tokens: int, count: int) -> list[str]:
    """Texts of random whole-word pieces, `tokens` sub-tokens each with the special ones."""
    tokenizer = classifier.transformer.tokenizer
    words = [word for word in tokenizer.get_vocab() if word.isascii() and word.isalpha() and len(word) > 3]
    special = tokenizer.num_special_tokens_to_add()
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(len(words), (count, tokens - special), generator=generator).tolist()
    texts = [" ".join(words[i] for i in row) for row in rows]
    lengths = {len(encoding) for encoding in classifier.read(texts)}
    if lengths != {tokens}:
        raise SystemExit(f"texts have {sorted(lengths)} sub-tokens; expected {tokens}")
    return texts


def marked_task(classifier: Predictor) -> ListedTask:
    """Texts with the labels that the classifier gives them, one word of the first two marked."""
    texts = ["a warm funny sequel", "no refund at all"] * 15
    marks = {f"train-{n}": (False, True, False, False) for n in (1, 2)}
    return ListedTask(classifier, texts, labels=classifier.predict(texts), gold=marks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classifier", type=Path, help="folder of a classifier (default: the embedded encoder)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--texts", type=int, default=16)
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    classifier = load_classifier(options.classifier, options.device)
    explainers: dict[str, Explainer] = {
        "marker": Marker(protocol="in_domain", epochs=1).learn(marked_task(classifier)),
        "expnet": ExpNet(protocol="in_domain", epochs=1).learn(marked_task(classifier)),
        "reader": Reader(epochs=1, samples=4).learn(marked_task(classifier)),
    }
    print(
        f"torch {torch.__version__}, transformers {transformers.__version__}, {classifier.device}, "
        f"{torch.get_num_threads()} threads, {options.texts} texts, {options.runs} paired runs"
    )
    failed = False
    for tokens, limits in LIMITS.items():
        if tokens > classifier.max_length:
            print(f"{tokens} sub-tokens: the classifier takes {classifier.max_length} at most")
            continue
        texts = texts_of_length(classifier, tokens, options.texts)
        for name, explainer in explainers.items():
            ratio = measure(classifier, explainer, texts, options.runs, f"{tokens} sub-tokens, {name}")
            failed |= ratio > limits.get(name, float("inf"))
    sys.exit(failed)


def measure(classifier: Predictor, explainer: Explainer, texts: list[str], runs: int, what: str) -> float:
    """The median ratio, printed with what belongs to it."""
    classify: Callable[[], object] = lambda: classifier.predict(texts)  # noqa: E731
    explain: Callable[[], object] = lambda: list(explainer.explain(classifier, texts))  # noqa: E731
    classify(), explain()
    pairs = [(seconds(classify), seconds(explain)) for _ in range(runs)]
    ratios = sorted(both / alone for alone, both in pairs)
    ratio = statistics.median(ratios)
    alone = statistics.median(pair[0] for pair in pairs) / len(texts)
    print(
        f"{what}: {ratio:.3f} x (quartiles {ratios[len(ratios) // 4]:.3f} to {ratios[3 * len(ratios) // 4]:.3f}); "
        f"classify alone {1000 * alone:.1f} ms a text",
        flush=True,
    )
    return ratio


if __name__ == "__main__":
    main()
