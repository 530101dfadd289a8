"""Agreement between methods on the same texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.metrics.arrays import check_scores, correlation, ranks, ratio

Array = NDArray[np.float64]


def rank_agreement(scores: Mapping[str, Sequence[ArrayLike]]) -> Array:
    """Compute Spearman's rho of two methods' word scores in a text, mean over texts.

    A text in which one of the two methods gives all words the same score has no rho and is left out for that pair; NaN
    if no text is left. The diagonal is 1.

    Args:
        scores: method -> one array (words,) per text; the texts in the same order for all methods.

    Returns:
        (methods, methods), in [-1, 1].

    Raises:
        DataError: a score is not finite.
    """
    total = np.zeros((len(scores), len(scores)))
    texts = np.zeros_like(total)
    for of_text in zip(*scores.values(), strict=True):
        ranked = ranks([check_scores(of_method) for of_method in of_text])
        rho = correlation(ranked[:, None], ranked[None, :])
        total += np.nan_to_num(rho)
        texts += ~np.isnan(rho)
    return ratio(total, texts)
