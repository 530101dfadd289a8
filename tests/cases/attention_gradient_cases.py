"""What tests of gradients of attention share."""

from __future__ import annotations

from typing import Any

import tiny
import torch

import explearn
from explearn.lens.gradients import LayerGradients, differentiate


def double(kind: str, classes: int = 3, **config: Any) -> explearn.Classifier:
    """In float64, so that rounding hides nothing."""
    of = tiny.make_classifier(kind, classes)
    if config:
        of.model = tiny.model(kind, classes, **config).requires_grad_(False)
    of.model.double()
    return of


def scores(name: str, of: explearn.Classifier, texts: Any, targets: Any = None, **options: Any) -> list[torch.Tensor]:
    """Scores of each text's sub-tokens, special ones included, all texts in one padded batch."""
    encodings = of.encode(texts)
    wanted = None if targets is None else torch.tensor(targets)
    found = explearn.get_explainer(name, **options).score_batch(of, of.batch(encodings), wanted)
    return [row[: len(e)] for row, e in zip(found.scores, encodings, strict=True)]


def gradients(of: explearn.Classifier, text: Any, target: int | None = None) -> LayerGradients:
    """Of one text alone, without padding."""
    wanted = None if target is None else torch.tensor([target])
    return differentiate(of, of.batch(of.encode([text])), wanted, attentions=True, inputs=True)
