"""The demo's classifier: a head for four topics of news, on the frozen encoder that a package carries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, cast

import torch
from torch.nn import functional

from explearn.core.compute import ComputeOptions
from explearn.model.batching import budget_batches
from explearn.model.classifier import Classifier
from explearn.model.encoding import Encoding
from explearn.model.finetune import load_encoder
from explearn.model.loading import EMBEDDED

if TYPE_CHECKING:
    from transformers import BertForSequenceClassification

LENGTH = 128
"""Most sub-tokens that it reads of a text."""

# The encoder is left as it is, so a few passes over its 360 vectors are enough.
_EPOCHS, _BATCH, _LEARNING_RATE, _WEIGHT_DECAY = 20, 32, 1e-3, 0.01


@dataclass(frozen=True, slots=True)
class Headlines:
    """Texts and their topics, in the same order."""

    texts: list[str]
    labels: list[str]


def headlines(split: str) -> Headlines:
    """The headlines of a split, `train` or `test`."""
    lines = resources.files("explearn.cli.demo").joinpath("headlines.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["split"] == split]
    return Headlines([row["text"] for row in rows], [row["label"] for row in rows])


def demo_classifier(compute: ComputeOptions, seed: int) -> Classifier:
    """Train the head on the headlines: the pooler's layer and the classes, on the encoder's state of [CLS].

    Raises ModelError where the package with the encoder is missing or holds other weights.
    """
    lessons = headlines("train")
    labels = sorted(set(lessons.labels))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model, tokenizer = load_encoder(EMBEDDED, labels, LENGTH)
        classifier = Classifier(model, tokenizer, compute, "the demo's classifier")
        states = _states(classifier, classifier.encode(lessons.texts))
        truth = torch.tensor([classifier.label_index(label) for label in lessons.labels], device=classifier.device)
        _train(classifier, states, truth)
    return classifier


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread in the block.

    Batches of headlines gain little by a second one, and where other work takes the cores the two wait for each other.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@torch.no_grad()
def _states(classifier: Classifier, encodings: Sequence[Encoding]) -> torch.Tensor:
    """The encoder's last state of [CLS] in each text, (texts, width)."""
    bert = _bert(classifier).bert
    found = torch.empty(len(encodings), bert.config.hidden_size, device=classifier.device)
    for indices in budget_batches([len(e) for e in encodings], classifier.max_tokens, classifier.same_length):
        batch = classifier.batch([encodings[i] for i in indices])
        found[indices] = bert(**batch.model_inputs()).last_hidden_state[:, 0]
    return found


def _train(classifier: Classifier, states: torch.Tensor, truth: torch.Tensor) -> None:
    model = _bert(classifier)
    assert model.bert.pooler is not None  # a sequence classifier's encoder has one
    dense = model.bert.pooler.dense
    learned = [*dense.parameters(), *model.classifier.parameters()]
    for parameter in learned:
        parameter.requires_grad_(True)
    optimiser = torch.optim.AdamW(learned, lr=_LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
    for _ in range(_EPOCHS):
        for rows in torch.split(torch.randperm(len(states), device=states.device), _BATCH):
            pooled = functional.dropout(torch.tanh(dense(states[rows])), 0.1)
            loss = functional.cross_entropy(model.classifier(pooled), truth[rows])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    model.requires_grad_(False)


def _bert(classifier: Classifier) -> BertForSequenceClassification:
    return cast("BertForSequenceClassification", classifier.model)
