"""The demo's classifier: four news topics, fine-tuned from the encoder that comes in a package."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, cast

import torch
from torch.nn import functional

from explearn.core.compute import ComputeOptions
from explearn.methods.base.training import train_epochs
from explearn.predictors.batching import random_batches
from explearn.predictors.finetune import load_encoder
from explearn.predictors.loading import EMBEDDED
from explearn.predictors.transformer import TransformerPredictor

if TYPE_CHECKING:
    from transformers import BertForSequenceClassification

LENGTH = 128
"""Most sub-tokens of a text that it reads."""

FROZEN = 3
"""Number of lower layers of the encoder that stay frozen. With all layers frozen, a classifier trained on so few texts
is often right for reasons that no reader shares."""

_EPOCHS, _BATCH, _LEARNING_RATE, _WEIGHT_DECAY = 3, 32, 3e-4, 0.01


def headlines(split: str) -> tuple[list[str], list[str]]:
    """Return the headlines of a split, `train` or `test`."""
    lines = resources.files("explearn.cli.demo").joinpath("headlines.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["split"] == split]
    return [row["text"] for row in rows], [row["label"] for row in rows]


def demo_classifier(compute: ComputeOptions, seed: int, description: str | None = None) -> TransformerPredictor:
    """Fine-tune the encoder's upper layers and a head on the headlines.

    Args:
        compute: device and precision.
        seed: seed of the head's weights and of the batches.
        description: text of a progress bar. None: no bar.

    Raises:
        ModelError: the package with the encoder is missing, or holds other weights.
    """
    texts, labels = headlines("train")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model, tokenizer = load_encoder(EMBEDDED, sorted(set(labels)), LENGTH)
        classifier = TransformerPredictor(model, tokenizer, compute, "the demo's classifier")
        encodings = classifier.encode(texts)
        truth = torch.tensor([classifier.label_index(label) for label in labels], device=classifier.device)
        bert = cast("BertForSequenceClassification", classifier.model)
        upper = [*list(bert.bert.encoder.layer)[FROZEN:], bert.bert.pooler, bert.classifier]
        learned = [parameter for part in upper if part is not None for parameter in part.parameters()]
        for parameter in learned:
            parameter.requires_grad_(True)
        optimiser = torch.optim.AdamW(learned, lr=_LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
        steps = _EPOCHS * -(-len(encodings) // _BATCH)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / steps)
        generator = torch.Generator().manual_seed(seed)
        lengths = [len(encoding) for encoding in encodings]

        def batch_loss(indices: list[int]) -> torch.Tensor:
            batch = classifier.batch([encodings[i] for i in indices])
            return functional.cross_entropy(bert(**batch.model_inputs()).logits, truth[indices])

        train_epochs(
            [classifier.model],
            optimiser,
            lambda: random_batches(lengths, _BATCH, generator, stretch=4),
            batch_loss,
            _EPOCHS,
            clipped=learned,
            schedule=schedule,
            description=description,
        )
        classifier.model.requires_grad_(False)
    return classifier
