"""Texts with their classes, and one forward pass that classifies and explains them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from explearn.core.records import Example
from explearn.lens.capture import capture_attention
from explearn.lens.gradients import content_mask
from explearn.methods.ivra.attention import AttentionModule
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch, Encoding


@dataclass(frozen=True, slots=True)
class Labelled:
    """Encoded texts with the indices of their true classes.

    examples: what was encoded; needed of questions, which are explained for the model's own answer, not the true one.
    """

    encodings: Sequence[Encoding]
    labels: Sequence[int]
    examples: Sequence[Example] = ()

    def __len__(self) -> int:
        return len(self.encodings)

    def take(self, rows: Sequence[int]) -> Labelled:
        examples = [self.examples[i] for i in rows] if self.examples else ()
        return Labelled([self.encodings[i] for i in rows], [self.labels[i] for i in rows], examples)


@dataclass(frozen=True, slots=True)
class Explained:
    """One forward pass with a graph: logits (b, C), r (b, n), and H (b, d) where it was asked for."""

    logits: torch.Tensor
    r: torch.Tensor
    states: torch.Tensor | None


def explain_batch(
    classifier: Classifier, module: AttentionModule, batch: Batch, states: bool = False, keep_graph: bool = True
) -> Explained:
    """Classify and explain a batch in one forward pass.

    H is the mean over all layers' outputs and all real tokens, as `representations.aggregate_states` takes it.
    """
    content = content_mask(batch)
    reduce, parts = module.reader(content)
    with classifier.autocast(), capture_attention(classifier.model, reduce, keep_graph=keep_graph):
        output: Any = classifier.model(**batch.model_inputs(), output_hidden_states=states)
    mean = None
    if states:
        layers = torch.stack(output.hidden_states[1:]).float().mean(0)
        real = batch.attention_mask[..., None].to(layers.dtype)
        mean = (layers * real).sum(1) / real.sum(1)
    return Explained(output.logits.float(), module.combine(parts, content), mean)
