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
        target: index of the class that is explained.
        passes: number of changed texts that the classifier has read.
    """

    def __init__(self, classifier: Predictor, segments: Sequence[Segment], target: str | None = None) -> None:
        """Classify the text.

        Args:
            classifier: the classifier.
            segments: the text.
            target: the class that is explained. None: the most probable one.

        Raises:
            UnknownNameError: there is no such class.
        """
        self.classifier = classifier
        self.segments = segments
        self.passes = 0
        self._answers = Answers(classifier)
        self.original = self._probabilities([{}], gaps=False)[0]
        self.target = int(self.original.argmax())
        if target is not None:
            self.target = classifier.label_index(target)

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

        It is the logarithm of the odds of the target against the next most probable class; for a multi-label
        classifier, against its absence. The sign is the other one where the target does not hold for the text.

        Args:
            probabilities: (n, C).
        """
        target = probabilities[:, self.target]
        if self.classifier.problem is Problem.MULTI_LABEL:
            others = 1 - target
        else:
            others = np.delete(probabilities, self.target, axis=1).max(axis=1)
        odds = _logarithm(target) - _logarithm(others)
        if not self._holds(self.original[None])[0]:
            odds = -odds
        # Without an answer it has not turned.
        return np.nan_to_num(odds, nan=np.inf)

    def turned(self, probabilities: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether the target holds for changed texts, bool, (n,), but not for the text, or the other way round.

        Args:
            probabilities: (n, C).
        """
        changed: NDArray[np.bool_] = self._holds(probabilities) != self._holds(self.original[None])
        return changed & ~np.isnan(probabilities).any(axis=1)

    def _holds(self, probabilities: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether the target is the most probable class, or a label that applies, bool, (n,)."""
        if self.classifier.problem is Problem.MULTI_LABEL:
            applies: NDArray[np.bool_] = probabilities[:, self.target] >= HOLDS_FROM
            return applies
        most: NDArray[np.bool_] = probabilities.argmax(axis=1) == self.target
        return most


def _logarithm(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.log(np.maximum(probabilities, LEAST_PROBABILITY)))
