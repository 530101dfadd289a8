"""What the tests of AML share: a tiny classifier that goes by one word, and texts with it."""

import functools

import numpy as np
import tiny
import torch

from explearn import Example
from explearn.methods.aml.faml import FAML
from explearn.methods.aml.paml import PAML, initial_model
from explearn.methods.aml.target_metric import MapEvaluator
from explearn.methods.base.task import ListedTask
from explearn.metrics.params import EvaluateParams

LEARNING = {
    "backbone": "states",
    "batch_size": 8,
    "learning_rate": 1e-3,
    "head_learning_rate": 1e-2,
    "size_weight": 1.0,
    "inverse_weight": 0.5,
}
"""Options with which pAML learns the decisive words of a tiny classifier in some hundred steps."""

DECISIVE = {"warm": 1, "slow": 0}
FILLERS = ("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "and", "then", "sleeps", "afternoon")


def examples(count, seed, split="train"):
    """Texts of five to nine words, one of which decides the label."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        words = [str(word) for word in rng.choice(FILLERS, size=rng.integers(4, 9))]
        decisive = ("slow", "warm")[number % 2]
        words.insert(int(rng.integers(len(words) + 1)), decisive)
        rows.append(Example(f"{split}-{seed}-{number}", tuple(words), ("no", "yes")[number % 2], split, "made up"))
    return rows


def teach(classifier):
    """Train a classifier to go by the decisive word, and to be unsure without it, whatever else is left out."""
    rng = np.random.default_rng(0)
    classifier.model.requires_grad_(True)
    optimizer = torch.optim.Adam(classifier.model.parameters(), lr=3e-3)
    with torch.random.fork_rng():
        for step in range(60):
            rows = examples(32, seed=100 + step)
            encodings = []
            targets = []
            for row, encoding in zip(rows, classifier.read(rows), strict=True):
                gone = [i for i in range(1, len(row.words)) if rng.random() < 0.3]
                whole = not any(row.words[i] in DECISIVE for i in gone)
                targets.append([float(row.label == name) if whole else 0.5 for name in classifier.labels])
                masked = classifier.tokenizer.mask_token_id is not None and rng.random() < 0.5
                encodings.append(encoding.mask(gone, classifier.mask_token_id) if masked else encoding.delete(gone))
            logits = classifier.model(**classifier.batch(encodings).model_inputs()).logits
            loss = torch.nn.functional.cross_entropy(logits, torch.tensor(targets))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    classifier.model.requires_grad_(False)


@functools.cache
def one_word_classifier():
    """A classifier that goes by the decisive word; tests leave it as it is."""
    classifier = tiny.make_classifier(seed=1)
    teach(classifier)
    return classifier


@functools.cache
def trained():
    """A pAML of `one_word_classifier`; tests leave it as it is."""
    return PAML(**LEARNING, epochs=14).learn(task_of(one_word_classifier(), 64, 16))


TEXTS = [*tiny.TEXTS, *tiny.PAIRS]


QUICK = {"backbone": "states", "epochs": 1, "batch_size": 8, "learning_rate": 1e-3}


def refiner(paml, **options):
    faml = FAML(**{"learning_rate": 2e-2, "steps": 8, "samples": 0, **options})
    faml.start = paml
    faml.name = "faml"
    return faml


def loss(epoch, weights):
    """Mean loss of an epoch's texts."""
    return float(sum(weight * epoch[name] for name, weight in weights._asdict().items()))


def untrained(classifier, **options):
    """A pAML with G as it starts, without a step of training."""
    paml = PAML(**{**QUICK, **options})
    paml.model = (
        initial_model(classifier, classifier.read(examples(8, seed=1)), paml.options).eval().requires_grad_(False)
    )
    paml.trained_classifier = classifier.fingerprint
    return paml


def task_of(classifier, texts=8, validation=4, **more):
    return ListedTask(classifier, examples(texts, seed=1), examples(validation, seed=2, split="validation"), **more)


def values(classifier, attributions, metric):
    """What a metric says of some attributions, one a text."""
    evaluator = MapEvaluator(classifier, [metric], EvaluateParams())
    maps = []
    for attribution in attributions:
        (encoding,) = classifier.encode([" ".join(attribution.words)])
        scores = np.zeros(len(encoding), dtype=np.float32)
        scores[encoding.positions] = attribution.token_scores
        maps.append((evaluator.text(encoding, classifier.label_index(attribution.target)), scores))
    return evaluator.measure(maps)[:, 0]
