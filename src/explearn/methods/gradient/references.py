"""What a text is compared with: word embeddings that stand for no text, or for others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import torch

from explearn.lens.watch import content_mask
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch, text_seed

Baseline = Literal["pad", "mask", "zero"]
"""Embedding of the padding token, of the mask token (the unknown token where there is no mask), or zeros."""

CONSTANT_REFERENCES: tuple[Baseline, ...] = ("mask", "pad", "zero")
"""The first references of `reference_embeddings`; shuffled texts come after them."""


def baseline_vector(classifier: Classifier, baseline: Baseline) -> torch.Tensor:
    """One word embedding, shape (d,). Raises ModelError for `mask` where there is neither mask nor unknown token."""
    layer: Any = classifier.model.get_input_embeddings()
    if baseline == "zero":
        return torch.zeros_like(layer.weight[0])
    token_id = classifier.mask_token_id if baseline == "mask" else int(classifier.tokenizer.pad_token_id)
    vector: torch.Tensor = layer(torch.tensor(token_id, device=classifier.device))
    return vector


def baseline_embeddings(
    classifier: Classifier, batch: Batch, embeddings: torch.Tensor, baseline: Baseline
) -> torch.Tensor:
    """Word embeddings (batch, tokens, d) with the baseline's at every sub-token of the text.

    Special tokens and padding keep their own, so the classifier still finds its [CLS] and segments.
    """
    return torch.where(content_mask(batch)[..., None], baseline_vector(classifier, baseline), embeddings)


def reference_embeddings(
    classifier: Classifier, batch: Batch, embeddings: torch.Tensor, count: int, seed: int
) -> Iterator[torch.Tensor]:
    """Several references of each text of a batch, one at a time, word embeddings (batch, tokens, d) each.

    The first three have the mask's, the padding's and zero embeddings for every sub-token: no text. The others are the
    text itself with its sub-tokens in random order: the same words without their sense. Special tokens and padding keep
    their embeddings. The order depends only on the seed and the text, and reference i is the same for every `count`.
    """
    for baseline in CONSTANT_REFERENCES[:count]:
        yield baseline_embeddings(classifier, batch, embeddings, baseline)
    generators = [np.random.default_rng(text_seed(seed, encoding)) for encoding in batch.encodings]
    for _ in range(count - len(CONSTANT_REFERENCES)):
        order = torch.arange(embeddings.shape[1]).repeat(len(batch), 1)
        for row, (generator, encoding) in enumerate(zip(generators, batch.encodings, strict=True)):
            positions = torch.tensor(encoding.positions, dtype=torch.int64)
            order[row, positions] = positions[generator.permutation(len(positions))]
        yield embeddings.gather(1, order.to(embeddings.device)[..., None].expand_as(embeddings))
