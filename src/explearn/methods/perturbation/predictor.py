"""Logits of perturbed texts, each distinct input asked once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from explearn.predictors.encoding import Encoding
from explearn.predictors.predictor import Predictor

Logits = NDArray[np.float64]

Ask = Callable[[Sequence[Encoding]], Logits]
"""Logits of n perturbed texts, (n, C)."""

CACHED_TEXTS = 2**16
"""Most texts whose predictions are cached: 300 MB with 512 sub-tokens each."""


class CachedLogits:
    """Logits of perturbed texts, (n, C): each distinct input once, also over several texts.

    Args:
        predictor: the predictor that is asked.
    """

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self._rows: dict[object, Logits] = {}

    def __call__(self, texts: Sequence[Encoding]) -> Logits:
        """Return float64 logits of n texts, (n, C).

        Raises:
            ModelError: a logit is not finite.
        """
        new = {text.key: text for text in texts if text.key not in self._rows}
        if new:
            self._rows |= zip(new, self._predictor.predict_logits(list(new.values())), strict=True)
        logits = np.array([self._rows[text.key] for text in texts]).reshape(-1, len(self._predictor.labels))
        if len(self._rows) > CACHED_TEXTS:
            self._rows.clear()
        return logits
