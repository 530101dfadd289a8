"""Agreement between methods on the same texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.metrics.arrays import correlation, ranks, ratio
from explearn.metrics.plausibility import check_scores

Array = NDArray[np.float64]


def rank_agreement(scores: Mapping[str, Sequence[ArrayLike]]) -> Array:
    """Spearman's rho of two methods' word scores in a text, mean over texts: (methods, methods), in [-1, 1].

    A text in which one of the two methods gives all words the same score has no rho and is left out for that pair; NaN
    if no text is left. The diagonal is 1.

    Args:
        scores: by method, one array (words,) per text; the texts in the same order for all methods.

    Raises DataError for scores that are not finite.
    """
    total, known = np.zeros((len(scores),) * 2), np.zeros((len(scores),) * 2)
    for of_text in zip(*scores.values(), strict=True):
        ranked = ranks([check_scores(of_method) for of_method in of_text])
        rho = correlation(ranked[:, None], ranked[None, :])
        total += np.nan_to_num(rho)
        known += ~np.isnan(rho)
    return ratio(total, known)
