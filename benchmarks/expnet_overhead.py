"""What ExpNet adds to classification: the time of classify + explain over the time of classify alone.

    python benchmarks/expnet_overhead.py [--classifier FOLDER] [--texts 16] [--runs 15]

Both run the same texts of exactly 128 (then 512) sub-tokens through the same classifier, from strings to results:
`Classifier.predict` against `ExpNet.explain`, which classifies too. Runs alternate, so that a drift of the machine's
speed touches both; the ratio is taken pair by pair and its median printed. ExpNet's weights play no part in its speed,
so an untrained one serves. Exits with 1 where a ratio is above its limit.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

import torch
import transformers

from _timing import load_classifier, seconds
from explearn.methods.expnet.explainer import ExpNet, TokenExamples
from explearn.models.classifier import Classifier

LIMITS = {128: 1.05, 512: 1.12}
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


def untrained_expnet(classifier: Classifier) -> ExpNet:
    config = classifier.model.config
    heads = int(config.num_attention_heads)
    tokens = TokenExamples(torch.rand(8, 2 * heads), torch.zeros(8), torch.tensor([0, 8]).numpy())
    shape = {
        "layer": -1,
        "layers": int(config.num_hidden_layers),
        "heads": heads,
        "hidden_size": int(config.hidden_size),
    }
    return ExpNet(epochs=1).fit_tokens([tokens], shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classifier", type=Path, help="folder of a classifier (default: the embedded encoder)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--texts", type=int, default=16)
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    classifier = load_classifier(options.classifier, options.device)
    expnet = untrained_expnet(classifier)
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

        def classify(texts: list[str] = texts) -> object:
            return classifier.predict(texts)

        def explain(texts: list[str] = texts) -> object:
            return list(expnet.explain(classifier, texts))

        classify(), explain()
        pairs = [(seconds(classify), seconds(explain)) for _ in range(options.runs)]
        ratios = sorted(both / alone for alone, both in pairs)
        ratio = statistics.median(ratios)
        failed |= ratio > limit
        alone = statistics.median(pair[0] for pair in pairs) / len(texts)
        print(
            f"{tokens} sub-tokens: {ratio:.3f} x (quartiles {ratios[len(ratios) // 4]:.3f} to "
            f"{ratios[3 * len(ratios) // 4]:.3f}), limit {limit:.2f}; classify alone {1000 * alone:.1f} ms a text"
        )
    sys.exit(failed)


if __name__ == "__main__":
    main()
