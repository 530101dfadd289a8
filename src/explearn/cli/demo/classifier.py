"""The demo's classifier: a head for four topics of news, on the frozen encoder that a package carries."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
    """Return the headlines of a split, `train` or `test`."""
    lines = resources.files("explearn.cli.demo").joinpath("headlines.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["split"] == split]
    return Headlines([row["text"] for row in rows], [row["label"] for row in rows])


def demo_classifier(compute: ComputeOptions, seed: int) -> Classifier:
    """Train the head on the headlines: the pooler's layer and the classes, on the encoder's state of [CLS].

    Raises ModelError where the package with the encoder is missing or holds other weights.
    """
    lessons = headlines("train")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model, tokenizer = load_encoder(EMBEDDED, sorted(set(lessons.labels)), LENGTH)
        classifier = Classifier(model, tokenizer, compute, "the demo's classifier")
        states = _states(classifier, classifier.encode(lessons.texts))
        truth = torch.tensor([classifier.label_index(label) for label in lessons.labels], device=classifier.device)
        bert = cast("BertForSequenceClassification", classifier.model)
        assert bert.bert.pooler is not None  # a sequence classifier's encoder has one
        dense = bert.bert.pooler.dense
        learned = [*dense.parameters(), *bert.classifier.parameters()]
        for parameter in learned:
            parameter.requires_grad_(True)
        optimiser = torch.optim.AdamW(learned, lr=_LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
        for _ in range(_EPOCHS):
            for rows in torch.split(torch.randperm(len(states), device=states.device), _BATCH):
                pooled = functional.dropout(torch.tanh(dense(states[rows])), 0.1)
                loss = functional.cross_entropy(bert.classifier(pooled), truth[rows])
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        bert.requires_grad_(False)
    return classifier


@torch.no_grad()
def _states(classifier: Classifier, encodings: Sequence[Encoding]) -> torch.Tensor:
    """Return the encoder's last state of [CLS] in each text, (texts, width)."""
    bert = cast("BertForSequenceClassification", classifier.model).bert
    states = torch.empty(len(encodings), bert.config.hidden_size, device=classifier.device)
    for indices in budget_batches([len(e) for e in encodings], classifier.max_tokens, classifier.same_length):
        batch = classifier.batch([encodings[i] for i in indices])
        states[indices] = bert(**batch.model_inputs()).last_hidden_state[:, 0]
    return states
