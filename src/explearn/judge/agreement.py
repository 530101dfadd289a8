"""How far methods agree with each other on the same texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.errors import DataError
from explearn.judge.arrays import ranks, ratio
from explearn.judge.plausibility import check_scores, ranking
from explearn.judge.protocols import top_count

Array = NDArray[np.float64]


def rank_agreement(scores: Mapping[str, Sequence[ArrayLike]]) -> Array:
    """Spearman's rho of two methods' word scores in a text, mean over texts: (methods, methods), in [-1, 1].

    A text where one of the two methods scores all words alike has no rho and is left out for that pair; NaN where
    there is no text left. The diagonal is 1.

    Args:
        scores: by method, one array (words,) a text; the texts in one order for all methods.

    Raises DataError where numbers of texts or words differ, or scores are not finite.
    """
    texts = _texts(scores)
    total, known = np.zeros((len(scores),) * 2), np.zeros((len(scores),) * 2)
    for values in texts:
        centred = ranks(values, axis=1)
        centred -= centred.mean(axis=1, keepdims=True)
        norms = np.linalg.norm(centred, axis=1)
        total += ratio(centred @ centred.T, np.outer(norms, norms), undefined=0.0)
        known += np.outer(norms > 0, norms > 0)
    return ratio(total, known)


def top_overlap(scores: Mapping[str, Sequence[ArrayLike]], percent: int = 20) -> Array:
    """Share of the top words that two methods have in common, mean over texts: (methods, methods), in [0, 1].

    The top are `top_count(n, percent)` words, by highest score, then by position. Arguments and errors: as
    `rank_agreement`.
    """
    texts = _texts(scores)
    total = np.zeros((len(scores),) * 2)
    for values in texts:
        count = top_count(values.shape[1], percent)
        chosen = np.zeros(values.shape)
        for row, of_method in enumerate(values):
            chosen[row, ranking(of_method)[:count]] = 1.0
        total += chosen @ chosen.T / count
    return ratio(total, len(texts))


def prediction_overlap(predictions: Mapping[str, ArrayLike]) -> Array:
    """Share of texts for which the classifier gives the same class to the explanations of two methods, each read alone.

    L2E's prediction-based faithfulness of a student to its teacher (4.4): (methods, methods), in [0, 1].

    Args:
        predictions: by method, the class index of each text (`FaithfulnessResult.prediction`), in one order.

    Raises DataError where the numbers of texts differ.
    """
    rows = [np.asarray(found) for found in predictions.values()]
    if len({row.shape for row in rows}) > 1:
        raise DataError(f"predictions for {', '.join(str(row.size) for row in rows)} texts; expected equal numbers")
    matrix = np.array(rows)
    if not matrix.size:
        return np.full((len(rows), len(rows)), np.nan)
    return np.asarray((matrix[:, None] == matrix[None, :]).mean(axis=-1))


def _texts(scores: Mapping[str, Sequence[ArrayLike]]) -> list[Array]:
    """Scores of all methods for each text, (methods, words)."""
    counts = {method: len(texts) for method, texts in scores.items()}
    if len(set(counts.values())) > 1:
        raise DataError(f"methods explain {counts} texts; expected equal numbers")
    found = []
    for number, of_text in enumerate(zip(*scores.values(), strict=True)):
        values = [check_scores(text) for text in of_text]
        if len({len(value) for value in values}) > 1:
            lengths = dict(zip(scores, map(len, values), strict=True))
            raise DataError(f"text {number}: methods score {lengths} words; expected equal numbers")
        found.append(np.array(values))
    return found
