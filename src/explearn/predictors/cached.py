"""Predictions for perturbed texts, each distinct input asked once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from explearn.core.arrays import Array

if TYPE_CHECKING:
    # They import torch, which takes seconds; reading results does not need it.
    from explearn.predictors.encoding import Encoding
    from explearn.predictors.predictor import Predictor


Ask = Callable[[Sequence["Encoding"]], Array]
"""Returns the predictions for n perturbed texts, (n, C)."""

CACHED_TEXTS = 2**16
"""Most texts that a call leaves in the cache: 300 MB with 512 sub-tokens each."""


class CachedPredictions:
    """Predictions for inputs that look alike to the model (`Encoding.key`) only once.

    Call it with texts, or `request` all inputs that are needed, `evaluate` the new ones in one batched pass, and read
    `values`. Several metrics may share one object: what one has evaluated, the next need not.

    Attributes:
        predictor: the predictor that is asked.
        values: float64, (evaluated inputs, C).

    Args:
        predictor: the predictor that is asked.
        predict: what it is asked for n texts, (n, C). None: its `predict_proba`.
    """

    values: Array

    def __init__(self, predictor: Predictor, predict: Callable[..., Array] | None = None) -> None:
        self.predictor = predictor
        self._predict = predict or predictor.predict_proba
        self._clear()

    def _clear(self) -> None:
        self.values = np.zeros((0, len(self.predictor.labels)))
        self._rows: dict[object, int] = {}
        self._waiting: list[Encoding] = []

    def __call__(self, texts: Sequence[Encoding]) -> Array:
        """Return the predictions for n texts, (n, C). Raises ModelError for logits that are not finite."""
        rows = [self.request(text) for text in texts]
        self.evaluate()
        values = self.values[rows]
        if len(self._rows) > CACHED_TEXTS:
            self._clear()
        return values

    def request(self, encoding: Encoding) -> int:
        """Return the row of `values` that holds this input's prediction after the next `evaluate`."""
        known = len(self._rows)
        row = self._rows.setdefault(encoding.key, known)
        if row == known:
            self._waiting.append(encoding)
        return row

    def evaluate(self, description: str | None = None) -> None:
        """Predict what was requested since the last call.

        Args:
            description: text of a progress bar. None: no bar.
        """
        if self._waiting:
            waiting = self._waiting
            self._waiting = []
            self.values = np.concatenate([self.values, self._predict(waiting, description)])
