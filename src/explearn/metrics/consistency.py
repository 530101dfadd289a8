"""Consistency: do texts that are close to the model get similar explanations? IvRA (2.2.3, equations 12 and 18).

Spearman's rho over the pairs of a batch between the L2 distance of the texts' aggregate hidden states and the L2
distance of their explanations; the mean over batches.

Explanations of different lengths are compared position by position: a text's scores are divided by the sum of their
absolute values, which puts attention-like scores on the simplex, and padded with zeros to the longest text's length. A
text with only zero scores stays all zeros. IvRA takes distances "at the token level" (B.4.2) and does not say how texts
of different lengths are matched; here words are compared, not tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.arrays import Array
from explearn.metrics.arrays import check_scores, correlation, ranks
from explearn.metrics.base import Measurement, Metric, computed_together
from explearn.metrics.context import Context
from explearn.metrics.significance import pooled_interval


def padded(scores: Sequence[ArrayLike]) -> Array:
    """Return each text's scores divided by the sum of their absolute values, padded with zeros: (n, longest)."""
    values = [check_scores(text) for text in scores]
    rows = np.zeros((len(values), max(map(len, values), default=0)))
    for row, text in zip(rows, values, strict=True):
        # Scores may be as large as a float32 goes; the sum of their shares is not.
        largest = np.abs(text).max()
        if largest > 0:
            shares = text / largest
            row[: len(text)] = shares / np.abs(shares).sum()
    return rows


def batches(texts: int, most: int, seed: int) -> list[NDArray[np.intp]]:
    """Return random batches of texts, as equal in size as possible, none larger than `most`."""
    order = np.random.default_rng(seed).permutation(texts)
    return [np.sort(part) for part in np.array_split(order, max(1, -(-texts // most)))]


def consistency(
    states: ArrayLike,
    scores: Mapping[str, Sequence[ArrayLike]],
    batch_size: int = 64,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Measurement]:
    """Compute the rank correlation of distances between texts and between their explanations.

    All methods use the same batches.

    Args:
        states: aggregate hidden states, (n, d).
        scores: method -> one array (words,) per text.
        batch_size: most texts in a batch (IvRA: 64); batches are even, drawn by `seed`.
        confidence: level of the interval, which is from the jackknife over texts on the scale of Fisher's z.
        seed: seed of the batches.

    Returns:
        Method -> its consistency.

    Raises:
        DataError: a score is not finite.
    """
    # scipy takes a while to load; importing this module should not.
    from scipy.spatial.distance import pdist

    vectors = np.asarray(states, dtype=np.float64)
    parts = [rows for rows in batches(len(vectors), batch_size, seed) if len(rows) >= 3]
    near = [pdist(vectors[rows]) for rows in parts]
    results = {}
    for method, texts in scores.items():
        explanations = padded(texts)
        by_text = np.full(len(vectors), np.nan)
        # Of each batch where it is defined, its figure, and that without each text of the task, (n,).
        figures: list[float] = []
        without_one: list[Array] = []
        for rows, distances in zip(parts, near, strict=True):
            figure, by_text[rows], without = _batch_correlations(distances, pdist(explanations[rows]), len(rows))
            if not np.isnan(figure):
                figures.append(figure)
                without_one.append(np.full(len(vectors), figure))
                without_one[-1][rows] = without
        results[method] = Measurement(by_text, None)
        if figures:
            value = float(np.mean(figures))
            bounds = pooled_interval(value, np.mean(without_one, axis=0), confidence, least=-1.0)
            results[method] = Measurement(by_text, value, bounds)
    return results


def _batch_correlations(near: Array, far: Array, texts: int) -> tuple[float, Array, Array]:
    """Return Spearman's rho of two distances over all pairs of a batch, over each text's pairs, and over the others.

    Args:
        near: distance of each pair, (pairs,), in the order of `np.triu_indices`.
        far: the other distance, likewise.
        texts: number of texts in the batch.
    """
    pairs = np.stack(np.triu_indices(texts, 1))
    within = np.stack([np.flatnonzero((pairs == text).any(axis=0)) for text in range(texts)])
    outside = np.stack([np.flatnonzero((pairs != text).all(axis=0)) for text in range(texts)])
    every = correlation(ranks(near[None]), ranks(far[None]))
    own = correlation(ranks(near[within]), ranks(far[within]))
    others = correlation(ranks(near[outside]), ranks(far[outside]))
    return float(every[0]), own, others


def _all_methods(context: Context) -> dict[str, Measurement]:
    """Measure all methods; none if the model has no hidden states."""
    if context.states is None:
        return {}
    scores = {}
    for method, texts in context.attributions.items():
        scores[method] = [text.filled(0.0) for text in texts]
    params = context.params
    return consistency(context.states, scores, params.consistency_batch, params.confidence, context.seed)


METRICS = (
    Metric(
        "consistency",
        "Consistency",
        "rank correlation between the distances of texts in the classifier's states and the distances of their "
        "explanations",
        "higher",
        computed_together(_all_methods),
        group="behaviour",
        reference="IvRA, section 2.2.3, equations 12 and 18",
        lowest=-1.0,
        highest=1.0,
        of_model=True,
    ),
)
"""Similarity of explanations of texts that are close to the model."""
