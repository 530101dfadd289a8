"""Texts as both models read them, and the attributions that G gives to the classifier's sub-tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from explearn.methods.aml.attribution_model import AttributionModel
from explearn.methods.aml.tokenizer_bridge import Bridge, link_batch
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch, Encoding


@dataclass(frozen=True, slots=True)
class Reading:
    """A batch of b texts in the classifier's sub-tokens, (b, n), and in those of G's backbone, (b, n').

    source is target, and links is None, where the two share a tokenizer; else see `tokenizer_bridge.link_batch`.
    """

    target: Batch
    source: Batch
    links: torch.Tensor | None
    bridge: Bridge | None

    def to_target(self, scores: torch.Tensor) -> torch.Tensor:
        """Logits at the classifier's sub-tokens, (b, n), from those at the backbone's, (b, n')."""
        return scores if self.bridge is None or self.links is None else self.bridge.carry(scores, self.links)


def read(classifier: Classifier, bridge: Bridge | None, encodings: Sequence[Encoding]) -> Reading:
    target = classifier.batch(encodings)
    if bridge is None:
        return Reading(target, target, None, None)
    sources = bridge.read(encodings)
    links = link_batch(encodings, sources, classifier.device)
    return Reading(target, bridge.batch(sources, classifier.device), links, bridge)


def attribution_logits(
    model: AttributionModel, classifier: Classifier, reading: Reading, predictions: torch.Tensor
) -> torch.Tensor:
    """Logits of the attributions at the classifier's sub-tokens, (b, n), float32; predictions: y, (b, C)."""
    with classifier.autocast():
        scores = model(reading.source, predictions)
    return reading.to_target(scores)
