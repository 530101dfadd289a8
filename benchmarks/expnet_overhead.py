"""What ExpNet adds to classification: the time of classify + explain over the time of classify alone.

    python benchmarks/expnet_overhead.py [--classifier FOLDER] [--texts 16] [--runs 15]

Both run the same texts of exactly 128 (then 512) sub-tokens through the same classifier, from strings to results:
`Classifier.predict` against `ExpNet.explain`, which classifies too. Runs alternate, so that a drift of the machine's
speed touches both; the ratio is taken pair by pair and its median printed. Once for ExpNet as it is, which reads rows
and columns of all layers, once with the rows alone, once for the paper's, which reads the last layer. Weights play no
part in the speed, so untrained ones serve. Exits with 1 where a ratio of ExpNet as it is is above its limit.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import transformers

from _timing import load_classifier, seconds
from explearn.lens.features import feature_source
from explearn.methods.base.explainer import Explainer
from explearn.methods.expnet.explainer import ExpNet
from explearn.methods.expnet.paper import ExpNetPaper, TokenExamples
from explearn.methods.expnet.student import Words
from explearn.methods.expnet.words import wanted_inputs
from explearn.model.classifier import Classifier

LIMITS = {128: 1.10, 512: 1.15}
"""Sub-tokens a text -> largest ratio allowed."""


def texts_of_length(classifier: Classifier, tokens: int, count: int) -> list[str]:
    """Texts of random whole-word pieces, `tokens` sub-tokens each with the special ones."""
    tokenizer = classifier.tokenizer
    words = [word for word in tokenizer.get_vocab() if word.isascii() and word.isalpha() and len(word) > 3]
    special = tokenizer.num_special_tokens_to_add()
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(len(words), (count, tokens - special), generator=generator).tolist()
    texts = [" ".join(words[i] for i in row) for row in rows]
    lengths = {len(encoding) for encoding in classifier.encode(texts)}
    if lengths != {tokens}:
        raise SystemExit(f"texts have {sorted(lengths)} sub-tokens; expected {tokens}")
    return texts


def untrained_expnet(classifier: Classifier, attention: str) -> ExpNet:
    source = feature_source(classifier)
    inputs = wanted_inputs(source, "all", attention)
    words = Words(torch.rand(8, len(inputs)), torch.zeros(8).long(), (torch.arange(8) % 2).float(), torch.ones(8))
    return ExpNet(epochs=1, attention=attention).fit_words(words, inputs, source)


def untrained_paper(classifier: Classifier) -> ExpNetPaper:
    source = feature_source(classifier)
    tokens = TokenExamples(torch.rand(8, 2 * source["heads"]), torch.zeros(8), np.array([0, 8]))
    return ExpNetPaper(epochs=1).fit_tokens([tokens], {**source, "layer": source["layers"] - 1})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classifier", type=Path, help="folder of a classifier (default: the embedded encoder)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--texts", type=int, default=16)
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    classifier = load_classifier(options.classifier, options.device)
    explainers: dict[str, Explainer] = {
        "expnet": untrained_expnet(classifier, "row_and_column"),
        "expnet, rows alone": untrained_expnet(classifier, "row"),
        "expnet_paper": untrained_paper(classifier),
    }
    print(
        f"torch {torch.__version__}, transformers {transformers.__version__}, {classifier.device}, "
        f"{torch.get_num_threads()} threads, {options.texts} texts, {options.runs} paired runs"
    )
    failed = False
    for tokens, limit in LIMITS.items():
        if tokens > classifier.max_length:
            print(f"{tokens} sub-tokens: the classifier takes {classifier.max_length} at most")
            continue
        texts = texts_of_length(classifier, tokens, options.texts)
        for name, explainer in explainers.items():
            ratio = measure(classifier, explainer, texts, options.runs, f"{tokens} sub-tokens, {name}")
            failed |= name == "expnet" and ratio > limit
    sys.exit(failed)


def measure(classifier: Classifier, explainer: Explainer, texts: list[str], runs: int, what: str) -> float:
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
