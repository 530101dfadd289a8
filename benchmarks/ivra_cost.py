"""What IvRA costs: a training step against a plain fine-tuning step, and classify + explain against classify alone.

    python benchmarks/ivra_cost.py [--classifier FOLDER] [--texts 32] [--runs 15]

A step takes one batch of corpus texts: losses, gradients and AdamW of all trained weights, the word embeddings left out
on both sides. Runs alternate and ratios are taken pair by pair; their median is printed. Exits with 1 where a ratio is
above its limit.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from _timing import CORPUS, load_classifier, load_texts, paired
from explearn.core.examples import Example
from explearn.methods.ivra.attention import HeadAttention, InterpretableAttention, size_of
from explearn.methods.ivra.explainer import IvRA, SMaT
from explearn.methods.ivra.params import IvRAParams
from explearn.methods.ivra.training import JointTrainer
from explearn.predictors.predictor import Predictor

STEP_LIMIT = 3.5
"""Largest ratio of a step to a plain one."""

EXPLAIN_LIMIT = 1.10


def step(classifier: Predictor, texts: list[str], criteria: list[str]) -> Callable[[], None]:
    """A function that makes one training step for these criteria; none: plain fine-tuning."""
    copied = classifier.transformer.with_model(copy.deepcopy(classifier.transformer.model))
    copied.model.requires_grad_(True).train()
    copied.model.get_input_embeddings().weight.requires_grad_(False)
    module = InterpretableAttention(*size_of(copied.model))
    encodings = copied.read(texts)
    labels = [number % len(copied.labels) for number in range(len(texts))]
    examples = [
        Example(str(number), tuple(text.split()), copied.labels[label], "train", "timing")
        for number, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    generator = torch.Generator().manual_seed(0)
    settings = IvRAParams(criteria=criteria or ["comp"])
    trainer = JointTrainer(copied, module, examples, None, settings, generator, None, lambda: (0.0, {}))
    learned = [p for p in (*copied.model.parameters(), *module.parameters()) if p.requires_grad]
    optimiser = torch.optim.AdamW(learned, lr=1e-5)
    batch, targets = copied.batch(encodings), torch.tensor(labels)

    def run() -> None:
        optimiser.zero_grad(set_to_none=True)
        if criteria:
            torch.stack(list(trainer.losses(examples).values())).sum().backward()
        else:
            torch.nn.functional.cross_entropy(copied.model(**batch.model_inputs()).logits, targets).backward()
        optimiser.step()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classifier", type=Path, help="folder of a classifier (default: the embedded encoder)")
    parser.add_argument("--texts", type=int, default=32)
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    classifier = load_classifier(options.classifier)
    texts = load_texts(CORPUS, options.texts)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {options.texts} texts, {options.runs} pairs")
    failed = False
    plain = step(classifier, texts, [])
    for criterion in ("comp", "suff"):
        trained = step(classifier, texts, [criterion])
        plain(), trained()
        ratio = paired(trained, plain, options.runs)
        failed |= ratio.median > STEP_LIMIT
        print(f"step for {criterion}: {ratio}, limit {STEP_LIMIT}")
    for method, kind in ((IvRA, InterpretableAttention), (SMaT, HeadAttention)):
        for norm in ("softmax", "sparsemax"):
            explainer = method(norm=norm)
            explainer.attention = kind(*size_of(classifier.transformer.model), norm=norm).requires_grad_(False)
            explainer.trained_classifier = classifier.fingerprint

            def explain(explainer: IvRA | SMaT = explainer) -> object:
                return list(explainer.explain(classifier, texts))

            def classify() -> object:
                return classifier.predict(texts)

            classify(), explain()
            ratio = paired(explain, classify, options.runs)
            failed |= ratio.median > EXPLAIN_LIMIT
            print(f"explain with {method.__name__}, {norm}: {ratio}, limit {EXPLAIN_LIMIT}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
