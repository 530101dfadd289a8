"""The classifier's predictions for perturbed texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from explearn.core.numeric_checks import check_logits
from explearn.predictors.batching import run_batches
from explearn.predictors.encoding import Encoding
from explearn.predictors.transformer import TransformerPredictor

Logits = NDArray[np.float64]

Ask = Callable[[Sequence[Encoding]], Logits]
"""Logits of n perturbed texts, (n, C)."""

REMEMBERED = 2**16
"""Most texts whose predictions are cached: 300 MB with 512 sub-tokens each."""


class Predictor:
    """A predictor of perturbed texts' logits: each distinct input once, in batches within the token budget.

    Up to REMEMBERED predictions are cached, so that repeated inputs, also from other texts, are not evaluated again.
    """

    def __init__(self, classifier: TransformerPredictor) -> None:
        self._classifier = classifier
        self._answers: dict[object, Logits] = {}

    @torch.inference_mode()
    def __call__(self, texts: Sequence[Encoding]) -> Logits:
        """Return float64 logits of n texts, (n, C). Raises ModelError for logits that are not finite."""
        new = {text.key: text for text in texts if text.key not in self._answers}
        if new:
            encodings, classifier = list(new.values()), self._classifier
            # Results stay on the device until all batches are queued, to wait only once.
            rows = run_batches(
                [len(text) for text in encodings],
                classifier,
                lambda indices: classifier.logits(classifier.batch([encodings[i] for i in indices])).unbind(),
            )
            logits = torch.stack(rows).double().cpu().numpy()
            check_logits(logits, classifier.name)
            self._answers |= zip(new, logits, strict=True)
        answers = np.array([self._answers[text.key] for text in texts]).reshape(-1, len(self._classifier.labels))
        if len(self._answers) > REMEMBERED:
            self._answers.clear()
        return answers
