"""A classifier's answer to a text, and to changed copies of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explearn.core.words import Segment
from explearn.predictors.answers import Answers
from explearn.predictors.labelled import HOLDS_FROM, Problem
from explearn.predictors.predictor import Predictor
from explearn.text.rewriting import Edits, rewrite

LEAST_PROBABILITY = 1e-12
"""Value below which a probability counts as this, for its logarithm."""


class Decision:
    """A classifier's answer to a text, and its answers to changed texts.

    Attributes:
        classifier: the classifier.
        segments: the text.
        original: its probabilities, (C,).
        target: index of the most probable class.
        passes: number of changed texts that the classifier has read.
    """

    def __init__(self, classifier: Predictor, segments: Sequence[Segment]) -> None:
        """Classify the text.

        Args:
            classifier: the classifier.
            segments: the text.
        """
        self.classifier = classifier
        self.segments = segments
        self.passes = 0
        self._answers = Answers(classifier)
        self.original = self._probabilities([{}], gaps=False)[0]
        self.target = int(self.original.argmax())

    def _probabilities(self, changes: Sequence[Edits], gaps: bool) -> NDArray[np.float64]:
        texts: list[Any] = [rewrite(self.segments, edits) for edits in changes]
        return self._answers.ask(texts, gaps=gaps)

    def ask(self, changes: Sequence[Edits]) -> NDArray[np.float64]:
        """Return the probabilities of changed texts, (changes, C); each counts as a pass. NaN: there is no answer."""
        self.passes += len(changes)
        return self._probabilities(changes, gaps=True)

    def possible(self, edits: Edits) -> bool:
        """Return whether words are left in each segment."""
        return rewrite(self.segments, edits) is not None

    def margin(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how far changed texts are from another answer, (n,): below 0 the answer has turned.

        It is the logarithm of the odds of the class against the next most probable one; for a multi-label classifier,
        of the label against its absence, with the other sign where the label does not apply to the text.

        Args:
            probabilities: (n, C).
        """
        target = probabilities[:, self.target]
        if self.classifier.problem is Problem.MULTI_LABEL:
            odds = _logarithm(target) - _logarithm(1 - target)
            if self.original[self.target] < HOLDS_FROM:
                odds = -odds
            return odds
        others = np.delete(probabilities, self.target, axis=1)
        # Without an answer it has not turned.
        return np.nan_to_num(_logarithm(target) - _logarithm(others.max(axis=1)), nan=np.inf)

    def turned(self, probabilities: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether changed texts get another answer, bool, (n,), from their probabilities, (n, C)."""
        if self.classifier.problem is Problem.MULTI_LABEL:
            applied = self.original[self.target] >= HOLDS_FROM
            changed: NDArray[np.bool_] = (probabilities[:, self.target] >= HOLDS_FROM) != applied
            return changed
        different: NDArray[np.bool_] = probabilities.argmax(axis=1) != self.target
        return different & ~np.isnan(probabilities).any(axis=1)


def _logarithm(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.log(np.maximum(probabilities, LEAST_PROBABILITY)))
