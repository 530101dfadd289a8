"""The share of words that an explanation calls important (IvRA, appendix D)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from explearn.metrics.context import Context, MetricColumns
from explearn.metrics.plausibility import check_scores

THRESHOLDS = np.arange(1, 10) / 10
"""z, on scores scaled to [0, 1] within a text."""


def important_share(scores: ArrayLike) -> float:
    """Share of the scores of a text that lie above z once scaled to [0, 1], mean over z in 0.1, 0.2 .. 0.9.

    Small for an explanation of few words. Where all scores are alike no one stands out, and all count: 1.
    Raises DataError for scores that are not finite.
    """
    values = check_scores(scores)
    spread = values.max() - values.min()
    if spread <= 0:
        return 1.0
    return float(((values - values.min()) / spread > THRESHOLDS[:, None]).mean())


def measure(context: Context, columns: MetricColumns) -> None:
    """Add important_words: `important_share` of each text."""
    for method, texts in context.attributions.items():
        columns.add(method, "important_words", np.array([important_share(text.filled()) for text in texts]))
