"""Consistency: do texts that are close to the model get similar explanations? IvRA (2.2.3, equations 12 and 18).

Spearman's rho over the pairs of a batch between the L2 distance of the texts' aggregate hidden states and the L2
distance of their explanations; the mean over batches.

Explanations of different lengths are compared position by position: the scores of a text are divided by the sum of
their absolute values, which puts attention-like scores on the simplex, and filled up with zeros to the longest text's
length. A text without any score other than 0 is all zeros. IvRA takes distances "at the token level" (B.4.2) and does
not say how texts of different lengths are matched; here words are compared, not tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.errors import DataError
from explearn.judge.arrays import ranks, ratio
from explearn.judge.columns import Columns
from explearn.judge.context import Context
from explearn.judge.plausibility import check_scores
from explearn.judge.significance import bootstrap_counts, percentile_interval

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
    """Rank correlation of distances between texts with distances between their explanations, for one method.

    Args:
        scores: one array (words,) a text. Others as of `consistency_of_methods`, which raises the same.
    """
    return consistency_of_methods(states, {"": scores}, batch_size, bootstrap_samples, confidence, seed)[""]


def consistency_of_methods(
    states: ArrayLike,
    scores: Mapping[str, Sequence[ArrayLike]],
    batch_size: int = 64,
    bootstrap_samples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, ConsistencyResult]:
    """Rank correlation of distances between texts with distances between their explanations, by method.

    All methods meet the same batches and resamples, so that the states are ranked once for all.

    Args:
        states: aggregate hidden states, (n, d).
        scores: by method, one array (words,) a text.
        batch_size: most texts a batch (IvRA: 64); batches are even, drawn by `seed`.
        bootstrap_samples, confidence, seed: of the percentile interval. A resample draws each batch's texts with
            replacement; the pairs of a text with its own copy are left out, for their distance of 0 is no finding.

    Raises DataError for states or scores that are not finite, or where their numbers differ.
    """
    # scipy takes a while to load; importing this module should not.
    from scipy.spatial.distance import pdist, squareform

    vectors = np.asarray(states, dtype=np.float64)
    finite = vectors.ndim == 2 and bool(np.isfinite(vectors).all())
    for of_method in scores.values():
        if not finite or len(vectors) != len(of_method):
            raise DataError(
                f"states of shape {vectors.shape} for {len(of_method)} explanations; expected finite, (texts, d)"
            )
    explanations = {method: padded(of_method) for method, of_method in scores.items()}
    by_text = {method: np.full(len(vectors), np.nan) for method in scores}
    # By method, the figure of each batch where it is defined, and its resamples.
    values: dict[str, list[tuple[float, Array]]] = {method: [] for method in scores}
    rng = np.random.default_rng(seed)
    for rows in batches(len(vectors), batch_size, seed):
        if len(rows) < 3:
            continue
        distances = pdist(vectors[rows])
        counts = bootstrap_counts(len(rows), bootstrap_samples, rng)
        left, right = np.triu_indices(len(rows), 1)
        once = np.ones((1, len(distances)))
        weights = (counts[:, left] * counts[:, right]).astype(np.float64)
        near, resampled = _CentredRanks.of(distances, once), _CentredRanks.of(distances, weights)
        for method, vectors_of_method in explanations.items():
            found = pdist(vectors_of_method[rows])
            by_text[method][rows] = _rho_of_rows(squareform(distances), squareform(found))
            value = near.rho(_CentredRanks.of(found, once))[0]
            if not np.isnan(value):
                values[method].append((float(value), resampled.rho(_CentredRanks.of(found, weights))))
    return {method: _result(values[method], by_text[method], confidence) for method in scores}


def _result(batches: Sequence[tuple[float, Array]], by_text: Array, confidence: float) -> ConsistencyResult:
    """batches: figure and resampled figures of each batch where there is one."""
    if not batches:
        return ConsistencyResult(None, by_text, None, None)
    low, high = percentile_interval(np.mean([draws for _, draws in batches], axis=0), confidence)
    return ConsistencyResult(float(np.mean([value for value, _ in batches])), by_text, low, high)


def _rho_of_rows(first: Array, second: Array) -> Array:
    """Spearman's rho of each row of two (n, n) matrices with zero diagonals, which do not count: (n,)."""
    off = ~np.eye(len(first), dtype=np.bool_)
    a, b = (ranks(m[off].reshape(len(m), -1), axis=1) for m in (first, second))
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    spread = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return ratio((a * b).sum(axis=1), spread)


@dataclass(frozen=True, slots=True, eq=False)
class _CentredRanks:
    """Mid-ranks of (pairs,) values in each resample, less their mean there.

    Attributes:
        weights: how often each pair stands in each resample, (samples, pairs).
        values: the ranks, (samples, pairs).
        square: sum of their squares, weighted, (samples,).
    """

    weights: Array
    values: Array
    square: Array

    @classmethod
    def of(cls, values: Array, weights: Array) -> _CentredRanks:
        ranked = _weighted_ranks(values, weights)
        ranked -= ((weights * ranked).sum(axis=1) / _at_least_one(weights.sum(axis=1)))[:, None]
        return cls(weights, ranked, np.einsum("sp,sp,sp->s", weights, ranked, ranked))

    def rho(self, other: _CentredRanks) -> Array:
        """Spearman's rho in each resample, which must be the same of both: (samples,)."""
        covariance = np.einsum("sp,sp,sp->s", self.weights, self.values, other.values)
        spread = np.sqrt(self.square * other.square)
        # What is left of a variance by rounding is none.
        enough = spread > 1e-12 * _at_least_one(self.weights.sum(axis=1))
        return ratio(covariance, np.where(enough, spread, 0.0))


def _at_least_one(totals: Array) -> Array:
    return np.where(totals > 0, totals, 1)


def _weighted_ranks(values: Array, weights: Array) -> Array:
    """Mid-ranks that values would have if each stood there as often as its weight says: (samples, pairs)."""
    distinct, group = np.unique(values, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(distinct)))
    sums = np.add.reduceat(weights[:, order], starts, axis=1)
    return np.asarray((np.cumsum(sums, axis=1) - sums / 2)[:, group])


def measure(context: Context) -> Columns:
    """Consistency of the methods whose model's states are known."""
    columns = Columns()
    params = context.params
    for model in context.models:
        if model.states is None:
            continue
        found = consistency_of_methods(
            model.states,
            {method: [text.filled(0.0) for text in texts] for method, texts in model.attributions.items()},
            params.consistency_batch,
            params.bootstrap_samples,
            params.confidence,
            context.seed,
        )
        for method, result in found.items():
            columns.by_text["consistency"][method] = result.by_text
            columns.figures[method] |= {
                "consistency": result.value,
                "consistency_low": result.low,
                "consistency_high": result.high,
            }
    return columns
