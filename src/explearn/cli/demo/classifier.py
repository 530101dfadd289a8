"""The demo's classifier: four news topics, fine-tuned from the encoder that comes in a package."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import torch
from torch.nn import functional

from explearn.core.compute import ComputeOptions
from explearn.methods.base.training import train_epochs
from explearn.predictors.batching import random_batches
from explearn.predictors.finetune import load_encoder
from explearn.predictors.loading import EMBEDDED
from explearn.predictors.transformer import TransformerPredictor

LENGTH = 128
"""Most sub-tokens of a text that it reads."""

FROZEN = 3
"""Number of lower layers of the encoder that stay frozen. With all layers frozen, a classifier trained on so few texts
is often right for reasons that no reader shares."""

_EPOCHS = 3
_BATCH = 32
_LEARNING_RATE = 3e-4
_WEIGHT_DECAY = 0.01


def headlines(split: str) -> tuple[list[str], list[str]]:
    """Return the headlines of a split, `train` or `test`."""
    lines = resources.files("explearn.cli.demo").joinpath("headlines.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["split"] == split]
    return [row["text"] for row in rows], [row["label"] for row in rows]


def demo_classifier(compute: ComputeOptions, seed: int, description: str | None = None) -> TransformerPredictor:
    """Fine-tune the encoder's upper layers and a head on the headlines.

    Args:
        compute: where to compute.
        seed: random seed.
        description: text of a progress bar. None: no bar.

    Raises:
        ModelError: the package with the encoder is missing, or its weights are not the expected ones.
    """
    texts, labels = headlines("train")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model, tokenizer = load_encoder(EMBEDDED, sorted(set(labels)), LENGTH)
        classifier = TransformerPredictor(model, tokenizer, compute, "the demo's classifier")
        encodings = classifier.read(texts)
        truth = torch.tensor([classifier.label_index(label) for label in labels], device=classifier.device)
        bert: Any = classifier.model
        upper = torch.nn.ModuleList([*bert.bert.encoder.layer[FROZEN:], bert.bert.pooler, bert.classifier])
        upper.requires_grad_(True)
        learned = list(upper.parameters())
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
