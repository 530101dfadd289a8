"""Correct L2E's scores for a text with further answers from the classifier."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from explearn.core.certificate import Certificate
from explearn.methods.l2e.answers import Answered, word_sums

RIDGE = 10.0
"""Penalty of the correction, against the sum of squares over the answers: how far L2E's scores are trusted."""

ENDS = 100.0
"""Weight of the answers to the whole text and to no word, each over all others together: their difference is what the
scores add up to, as in Kernel SHAP."""

LEAST_SHARE, LARGEST_SHARE = 0.5, 2.0
"""Of the budget that a text gets, however sure its scores are."""


def passes_of(certificate: Certificate | None, usual: float, budget: int) -> int:
    """Return how many passes a text gets: `budget`, by how its bound compares with the usual one; at least 2.

    Without a certificate it gets `budget`; an unfamiliar text, whose bound means nothing, the largest share.
    """
    share = 1.0
    if certificate is not None:
        share = certificate.bound / max(usual, 1e-9) if certificate.familiar else LARGEST_SHARE
    return max(2, round(budget * min(max(share, LEAST_SHARE), LARGEST_SHARE)))


def repaired(scores: NDArray[np.floating], answered: Answered, target: int) -> NDArray[np.float64]:
    """Correct L2E's scores by ridge regression on the residuals: the answers less the sums of the scores.

    With ever more answers the word scores become Kernel SHAP's (Lundberg and Lee 2017, theorem 2), wherever they
    started; a few of them move the scores only where they miss (after Paes et al. 2024, "Selective Explanations", and
    Covert et al. 2024, "Stochastic Amortization"). All sub-tokens of a word are moved alike.

    Args:
        scores: of the target, (tokens,). answered: answers to random sets of the text's words.
    """
    x, sums = answered.kept.astype(np.float64), word_sums(scores, answered.text)
    residuals = answered.answers[:, target] - x @ sums
    weights = np.ones(len(x))
    weights[:2] = ENDS * len(x)
    x, residuals = (part - np.average(part, axis=0, weights=weights) for part in (x, residuals))
    weighted = x * weights[:, None]
    moved = np.linalg.solve(weighted.T @ x + RIDGE * np.eye(x.shape[1]), weighted.T @ residuals)
    per_piece = np.append(moved / answered.text.pieces(), 0.0)
    corrected = np.array(scores, dtype=np.float64)
    corrected[: len(answered.text.owners)] += per_piece[answered.text.owners]
    return corrected
