"""Correct Reader's scores for a text with further answers from the classifier."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from explearn.core.arrays import Array
from explearn.methods.perturbation.random_words import Answered, word_sums

RIDGE = 10.0
"""Penalty of the correction, against the sum of squares over the answers: how far Reader's scores are trusted."""

ENDS = 100.0
"""Weight of the answers to the whole text and to no word, each over all others together: their difference is what the
scores add up to, as in Kernel SHAP."""

LEAST_SHARE = 0.5
"""Smallest part of the budget that a text gets, however certain its scores are."""

LARGEST_SHARE = 2.0
"""Largest multiple of the budget that a text gets, however uncertain its scores are."""


def passes_of(estimate: Sequence[float] | None, usual: float, budget: int) -> int:
    """Return how many passes a text gets, at least 2: `budget` times its bound over the usual bound.

    Without an estimate it gets `budget`; an unfamiliar text, whose bound means nothing, the largest share.

    Args:
        estimate: of the text's scores, as `Certifier` returns it: bound, and 1 for a familiar text.
        usual: the usual bound.
        budget: passes of an average text.
    """
    share = 1.0
    if estimate is not None:
        bound, familiar = estimate
        share = bound / max(usual, 1e-9) if familiar else LARGEST_SHARE
    return max(2, round(budget * min(max(share, LEAST_SHARE), LARGEST_SHARE)))


def repaired(scores: NDArray[np.floating], answered: Answered, target: int) -> Array:
    """Correct Reader's scores by ridge regression on the residuals: the answers less the sums of the scores.

    With ever more answers the word scores become Kernel SHAP's (Lundberg and Lee 2017, theorem 2), wherever they
    started; a few of them change the scores only where they are wrong (after Paes et al. 2024, "Selective
    Explanations", and Covert et al. 2024, "Stochastic Amortization"). All sub-tokens of a word change alike.

    Args:
        scores: scores for the target, (tokens,).
        answered: answers to random sets of the text's words.
        target: index of the class explained.
    """
    text = answered.text
    weights = np.ones(len(answered.kept))
    weights[:2] = ENDS * len(weights)
    known = ~np.isnan(answered.answers[:, target])
    weights = weights[known]
    kept = answered.kept[known].astype(np.float64)
    residuals = answered.answers[known, target] - kept @ word_sums(scores, text)
    x = kept - np.average(kept, axis=0, weights=weights)
    y = residuals - np.average(residuals, weights=weights)
    weighted = x * weights[:, None]
    change = np.linalg.solve(weighted.T @ x + RIDGE * np.eye(x.shape[1]), weighted.T @ y)
    corrected = np.array(scores, dtype=np.float64)
    corrected[: len(text.owners)] += text.on_pieces(change / text.pieces())
    return corrected
