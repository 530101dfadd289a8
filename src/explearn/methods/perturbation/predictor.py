"""The classifier's predictions for perturbed texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray

from explearn.core.numeric_checks import check_logits
from explearn.model.batching import run_batches
from explearn.model.classifier import Classifier
from explearn.model.encoding import Encoding

Logits = NDArray[np.float64]

Ask = Callable[[Sequence[Encoding]], Logits]
"""Logits of n perturbed texts, (n, C)."""

REMEMBERED = 2**16
"""Most texts whose predictions are cached: 300 MB with 512 sub-tokens each."""


class Predictor:
    """A predictor of perturbed texts' logits: each distinct input once, in batches within the token budget.

    Up to REMEMBERED predictions are cached, so that repeated inputs, also from other texts, are not evaluated again.
    """

    def __init__(self, classifier: Classifier) -> None:
        self._classifier = classifier
        self._answers: dict[object, Logits] = {}

    @torch.inference_mode()
    def __call__(self, requests: Sequence[Sequence[Encoding]]) -> list[Logits]:
        """Return float64 logits, (n, C) for each request of n texts.

        Raises ModelError for logits that are not finite.
        """
        texts = {text.key: text for text in chain.from_iterable(requests) if text.key not in self._answers}
        if texts:
            encodings, classifier = list(texts.values()), self._classifier
            # Results stay on the device until all batches are queued, to wait only once.
            rows = run_batches(
                [len(text) for text in encodings],
                classifier,
                lambda indices: classifier.logits(classifier.batch([encodings[i] for i in indices])).unbind(),
            )
            logits = torch.stack(rows).double().cpu().numpy()
            check_logits(logits, classifier.name)
            self._answers |= zip(texts, logits, strict=True)
        classes = len(self._classifier.labels)
        answers = [np.array([self._answers[text.key] for text in request]).reshape(-1, classes) for request in requests]
        if len(self._answers) > REMEMBERED:
            self._answers.clear()
        return answers
