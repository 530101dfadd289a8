"""Consistency: do texts that are close to the model get similar explanations? IvRA (2.2.3, equations 12 and 18).

Spearman's rho over the pairs of a batch between the L2 distance of the texts' aggregate hidden states and the L2
distance of their explanations; the mean over batches.

Explanations of different lengths are compared position by position: the scores of a text are divided by the sum of
their absolute values, which puts attention-like scores on the simplex, and filled up with zeros to the longest text's
length. A text without any score other than 0 is all zeros. IvRA takes distances "at the token level" (B.4.2) and does
not say how texts of different lengths are matched; here words are compared, not tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.errors import DataError
from explearn.metrics.arrays import ranks, ratio
from explearn.metrics.columns import Columns
from explearn.metrics.context import Context
from explearn.metrics.plausibility import check_scores
from explearn.metrics.significance import bootstrap_counts, percentile_interval

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ConsistencyResult:
    """Consistency of one method.

    Attributes:
        value: mean over the batches of Spearman's rho over their pairs, in [-1, 1], larger is better; None where no
            batch has two different distances of both kinds.
        by_text: rho over the pairs that a text makes with the others of its batch, shape (n,), NaN where undefined;
            what methods are compared on text by text.
        low, high: bounds of the bootstrap interval of `value`; None where it is undefined.
    """

    value: float | None
    by_text: Array
    low: float | None
    high: float | None


def padded(scores: Sequence[ArrayLike]) -> Array:
    """Scores of each text divided by the sum of their absolute values, zeros behind: (n, longest)."""
    values = [check_scores(text) for text in scores]
    found = np.zeros((len(values), max(map(len, values), default=0)))
    for row, text in enumerate(values):
        # Scores may be as large as a float32 goes; the sum of their shares is not.
        largest = np.abs(text).max()
        if largest > 0:
            shares = text / largest
            found[row, : len(text)] = shares / np.abs(shares).sum()
    return found


def batches(texts: int, most: int, seed: int) -> list[NDArray[np.intp]]:
    """Texts in random batches as even as can be, none larger than `most`."""
    order = np.random.default_rng(seed).permutation(texts)
    return [np.sort(part) for part in np.array_split(order, max(1, -(-texts // most)))]


def consistency(
    states: ArrayLike,
    scores: Sequence[ArrayLike],
    batch_size: int = 64,
    bootstrap_samples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> ConsistencyResult:
    """Rank correlation of distances between texts with distances between their explanations.

    Args:
        states: aggregate hidden states, (n, d).
        scores: one array (words,) a text.
        batch_size: most texts a batch (IvRA: 64); batches are even, drawn by `seed`.
        bootstrap_samples, confidence, seed: of the percentile interval. A resample draws each batch's texts with
            replacement; the pairs of a text with its own copy are left out, for their distance of 0 is no finding.

    Raises DataError for states or scores that are not finite, or where their numbers differ.
    """
    # scipy takes a while to load; importing this module should not.
    from scipy.spatial.distance import pdist, squareform

    vectors = np.asarray(states, dtype=np.float64)
    if vectors.ndim != 2 or len(vectors) != len(scores) or not np.isfinite(vectors).all():
        raise DataError(f"states of shape {vectors.shape} for {len(scores)} explanations; expected finite, (texts, d)")
    explanations = padded(scores)
    by_text = np.full(len(scores), np.nan)
    values, resampled = [], []
    rng = np.random.default_rng(seed)
    for rows in batches(len(scores), batch_size, seed):
        if len(rows) < 3:
            continue
        first, second = pdist(vectors[rows]), pdist(explanations[rows])
        values.append(_rho(first, second, np.ones((1, len(first))))[0])
        by_text[rows] = _rho_of_rows(squareform(first), squareform(second))
        counts = bootstrap_counts(len(rows), bootstrap_samples, rng)
        left, right = np.triu_indices(len(rows), 1)
        resampled.append(_rho(first, second, counts[:, left] * counts[:, right]))
    known = [value for value in values if not np.isnan(value)]
    if not known:
        return ConsistencyResult(None, by_text, None, None)
    kept = [draws for value, draws in zip(values, resampled, strict=True) if not np.isnan(value)]
    means = np.mean(kept, axis=0)
    low, high = percentile_interval(means, confidence)
    return ConsistencyResult(float(np.mean(known)), by_text, low, high)


def _rho_of_rows(first: Array, second: Array) -> Array:
    """Spearman's rho of each row of two (n, n) matrices with zero diagonals, which do not count: (n,)."""
    off = ~np.eye(len(first), dtype=np.bool_)
    a, b = (ranks(m[off].reshape(len(m), -1), axis=1) for m in (first, second))
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    spread = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return ratio((a * b).sum(axis=1), spread)


def _rho(first: Array, second: Array, weights: NDArray[np.integer] | Array) -> Array:
    """Spearman's rho of (pairs,) values for each row of pair multiplicities (samples, pairs): (samples,)."""
    a, b = _weighted_ranks(first, weights), _weighted_ranks(second, weights)
    total = weights.sum(axis=1)
    safe = np.where(total > 0, total, 1)
    for ranked in (a, b):
        ranked -= ((weights * ranked).sum(axis=1) / safe)[:, None]
    covariance = np.einsum("sp,sp,sp->s", weights, a, b)
    spread = np.sqrt(np.einsum("sp,sp,sp->s", weights, a, a) * np.einsum("sp,sp,sp->s", weights, b, b))
    # What is left of a variance by rounding is none.
    return ratio(covariance, np.where(spread > 1e-12 * safe, spread, 0.0))


def _weighted_ranks(values: Array, weights: NDArray[np.integer] | Array) -> Array:
    """Mid-ranks that values would have if each stood there as often as its weight says: (samples, pairs)."""
    distinct, group = np.unique(values, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(distinct)))
    sums = np.add.reduceat(weights[:, order].astype(np.float64), starts, axis=1)
    return np.asarray((np.cumsum(sums, axis=1) - sums / 2)[:, group])


def measure(context: Context) -> Columns:
    """Consistency of the methods whose model's states are known."""
    columns = Columns()
    params = context.params
    for model in context.models:
        if model.states is None:
            continue
        for method, texts in model.attributions.items():
            found = consistency(
                model.states,
                [text.filled(0.0) for text in texts],
                params.consistency_batch,
                params.bootstrap_samples,
                params.confidence,
                context.seed,
            )
            columns.by_text["consistency"][method] = found.by_text
            columns.figures[method] |= {
                "consistency": found.value,
                "consistency_low": found.low,
                "consistency_high": found.high,
            }
    return columns
