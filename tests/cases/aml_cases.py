"""What the tests of AML share: a tiny classifier that goes by one word, and texts with it."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import tiny
import torch
from explearn.predictors.transformer import TransformerPredictor

from explearn.core.examples import Example
from explearn.methods.aml.faml import FAML
from explearn.methods.aml.loss import Weights
from explearn.methods.aml.paml import PAML
from explearn.methods.aml.target_metric import MapJudge, Metric, protocol_of
from explearn.methods.listed_task import ListedTask

LEARNING: dict[str, Any] = {
    "batch_size": 8,
    "learning_rate": 1e-3,
    "head_learning_rate": 1e-2,
    "size_weight": 1.0,
    "inverse_weight": 0.5,
}
"""Options with which pAML learns the decisive words of a tiny classifier in some hundred steps."""

DECISIVE = {"warm": 1, "slow": 0}
FILLERS = ("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "and", "then", "sleeps", "afternoon")


def examples(count: int, seed: int, split: Any = "train") -> list[Example]:
    """Texts of five to nine words, one of which decides the label."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        words = [str(word) for word in rng.choice(FILLERS, size=rng.integers(4, 9))]
        decisive = ("slow", "warm")[number % 2]
        words.insert(int(rng.integers(len(words) + 1)), decisive)
        rows.append(Example(f"{split}-{seed}-{number}", tuple(words), ("no", "yes")[number % 2], split, "made up"))
    return rows


@functools.cache
def one_word_classifier(kind: str = "bert") -> TransformerPredictor:
    """Trained to go by the decisive word, and to be unsure without it, whatever else is masked or left out.

    Tests leave it as it is.
    """
    classifier = tiny.make_classifier(kind, seed=1)
    rows = examples(192, seed=0)
    rng = np.random.default_rng(0)
    encodings, targets = [], []
    for row, encoding in zip(rows, classifier.encode(rows), strict=True):
        gone = [i for i in range(len(row.words)) if rng.random() < 0.4]
        gone = [i for i in gone if row.words[i] not in DECISIVE or rng.random() < 0.8]
        whole = not any(row.words[i] in DECISIVE for i in gone)
        targets.append([float(row.label == name) if whole else 0.5 for name in classifier.labels])
        encodings.append(encoding.delete(gone) if rng.random() < 0.5 else encoding.mask(gone, classifier.mask_token_id))
    batch, labels = classifier.batch(encodings), torch.tensor(targets)
    classifier.model.requires_grad_(True)
    optimizer = torch.optim.Adam(classifier.model.parameters(), lr=2e-3)
    with torch.random.fork_rng():
        for _ in range(80):
            loss = torch.nn.functional.cross_entropy(classifier.model(**batch.model_inputs()).logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    classifier.model.requires_grad_(False)
    return classifier


@functools.cache
def trained(kind: str = "bert") -> PAML:
    """A pAML of `one_word_classifier`; tests leave it as it is."""
    return PAML(**LEARNING, epochs=20).fit(task_of(one_word_classifier(kind), 64, 16))


TEXTS: list[Any] = [*tiny.TEXTS, *tiny.PAIRS]


QUICK: dict[str, Any] = {"epochs": 1, "batch_size": 8, "learning_rate": 1e-3}


def refiner(paml: PAML, **options: Any) -> FAML:
    faml = FAML(**{"learning_rate": 2e-2, "steps": 8, "samples": 0, **options})
    faml.start, faml.name = paml, "faml"
    return faml


def loss(epoch: dict[str, Any], weights: Weights) -> float:
    """Mean loss of an epoch's texts."""
    return float(sum(weight * epoch[name] for name, weight in weights._asdict().items()))


def encoder(folder: Path, kind: str = "bert", tokenizer: str | None = None, **config: Any) -> str:
    """Save an encoder without a head, and return its folder."""
    other = tiny.model(kind, **config)
    getattr(other, other.base_model_prefix).save_pretrained(folder)
    tiny.tokenizer(tokenizer or kind).save_pretrained(folder)
    return str(folder)


def untrained(of: TransformerPredictor, **options: Any) -> PAML:
    """A pAML with G as it starts, without a step of training."""
    paml = PAML(**{**QUICK, **options})
    paml.model = paml._start(of, of.encode(examples(8, seed=1)), None, None).eval().requires_grad_(False)
    paml.trained_classifier = of.fingerprint
    return paml


def task_of(of: TransformerPredictor, texts: int = 8, validation: int = 4, **more: Any) -> ListedTask:
    return ListedTask(of, examples(texts, seed=1), examples(validation, seed=2, split="validation"), **more)


def predictions(of: TransformerPredictor, encodings: Any) -> torch.Tensor:
    """y of some texts, float32, (b, C)."""
    return torch.tensor(of.predict_proba(encodings), dtype=torch.float32)


def values(of: TransformerPredictor, attributions: Any, metric: Metric) -> np.ndarray:
    """What a metric says of some attributions, one a text."""
    judge = MapJudge(of, [metric], protocol_of("default"))
    maps = []
    for attribution in attributions:
        (encoding,) = of.encode([" ".join(attribution.words)])
        scores = np.zeros(len(encoding), dtype=np.float32)
        scores[encoding.positions] = attribution.token_scores
        maps.append((judge.text(encoding, of.label_index(attribution.target)), scores))
    return judge.measure(maps)[:, 0]
