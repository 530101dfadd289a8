"""The share of words that an explanation calls important (IvRA, appendix D)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from explearn.core.arrays import Array
from explearn.metrics.arrays import check_scores
from explearn.metrics.base import Metric
from explearn.metrics.context import Explanations

THRESHOLDS = np.arange(1, 10) / 10
"""z, on scores scaled to [0, 1] within a text."""


def important_share(scores: ArrayLike) -> float:
    """Return the share of the scores of a text that lie above z once scaled to [0, 1], mean over z in 0.1, 0.2 .. 0.9.

    Small for an explanation of few words. Where all scores are alike no one stands out, and all count: 1.

    Raises:
        DataError: a score is not finite.
    """
    values = check_scores(scores)
    spread = values.max() - values.min()
    if spread <= 0:
        return 1.0
    return float(((values - values.min()) / spread > THRESHOLDS[:, None]).mean())


def important_words(explanations: Explanations) -> Array:
    """Return `important_share` of each text, (texts,)."""
    return np.array([important_share(text.filled()) for text in explanations.attributions])


METRICS = (
    Metric(
        "important_words",
        "Important words",
        "share of a text's words that the method calls important (IvRA)",
        "lower",
        important_words,
        group="none",
        reference="IvRA, appendix D",
        lowest=0.0,
        highest=1.0,
        tested=False,
    ),
)
"""How concise explanations are."""
