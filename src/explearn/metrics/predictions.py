"""Predictions for shortened and masked texts, each distinct input evaluated once for all methods and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    # explearn.predictors imports torch, which takes seconds; reading results does not need it.
    from explearn.predictors.encoding import Encoding
    from explearn.predictors.predictor import Predictor


class Predictions:
    """Rows of class probabilities for inputs that look alike to the model (`Encoding.key`) only once.

    Metrics first `request` all inputs that they need, then `evaluate` the new ones in one batched pass, then read
    `probabilities`. Several metrics may share one object: what one has evaluated, the next need not.

    Attributes:
        classifier: the model that is asked.
        probabilities: float64, (evaluated inputs, C).
    """

    def __init__(self, classifier: Predictor) -> None:
        self.classifier = classifier
        self.probabilities: NDArray[np.float64] = np.zeros((0, len(classifier.labels)))
        self._rows: dict[object, int] = {}
        self._waiting: list[Encoding] = []

    def request(self, encoding: Encoding) -> int:
        """Return the row of `probabilities` that holds this input's prediction after the next `evaluate`."""
        row = self._rows.setdefault(encoding.key, len(self._rows))
        if row == len(self.probabilities) + len(self._waiting):
            self._waiting.append(encoding)
        return row

    def evaluate(self, description: str) -> None:
        """Predict what was requested since the last call; shows a progress bar that starts with `description`."""
        if not self._waiting:
            return
        probabilities = self.classifier.predict_proba(self._waiting, description)
        self.probabilities = np.concatenate([self.probabilities, probabilities])
        self._waiting = []
