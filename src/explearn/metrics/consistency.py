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
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.metrics.arrays import correlation, ranks
from explearn.metrics.context import Context, MetricColumns
from explearn.metrics.plausibility import check_scores
from explearn.metrics.significance import pooled_interval

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ConsistencyResult:
    """Consistency of one method.

    Attributes:
        value: mean over the batches of Spearman's rho over their pairs, in [-1, 1], larger is better; None if no batch
            has two different distances of both kinds.
        by_text: rho over a text's pairs with the other texts of its batch, shape (n,), NaN where undefined; used to
            compare methods text by text.
        low, high: bounds of the interval of `value`; None if undefined.
    """

    value: float | None
    by_text: Array
    low: float | None
    high: float | None


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
) -> dict[str, ConsistencyResult]:
    """Return the rank correlation of distances between texts and between their explanations, by method.

    All methods use the same batches.

    Args:
        states: aggregate hidden states, (n, d).
        scores: by method, one array (words,) a text.
        batch_size: most texts a batch (IvRA: 64); batches are even, drawn by `seed`.
        confidence: of the interval, which is from the jackknife over texts on the scale of Fisher's z.

    Raises DataError for scores that are not finite.
    """
    # scipy takes a while to load; importing this module should not.
    from scipy.spatial.distance import pdist

    vectors = np.asarray(states, dtype=np.float64)
    explanations = {method: padded(of_method) for method, of_method in scores.items()}
    by_text = {method: np.full(len(vectors), np.nan) for method in scores}
    # By method, for each batch where it is defined, its figure, and that without each text of the task, (n,).
    values: dict[str, list[tuple[float, Array]]] = {method: [] for method in scores}
    for rows in batches(len(vectors), batch_size, seed):
        if len(rows) < 3:
            continue
        pairs = np.stack(np.triu_indices(len(rows), 1))
        # Numbers of all pairs, and for each text of those that it is in, and is not in.
        every = np.arange(len(pairs[0]))[None]
        within = np.stack([np.flatnonzero((pairs == i).any(axis=0)) for i in range(len(rows))])
        outside = np.stack([np.flatnonzero((pairs != i).all(axis=0)) for i in range(len(rows))])
        near = pdist(vectors[rows])
        for method, of_method in explanations.items():
            far = pdist(of_method[rows])
            whole, by_text[method][rows], of_batch = (
                correlation(ranks(near[part]), ranks(far[part])) for part in (every, within, outside)
            )
            if not np.isnan(whole[0]):
                without = np.full(len(vectors), whole[0])
                without[rows] = of_batch
                values[method].append((float(whole[0]), without))
    results = {}
    for method, of_batches in values.items():
        value = float(np.mean([whole for whole, _ in of_batches])) if of_batches else None
        without_one = np.mean([without for _, without in of_batches], axis=0) if of_batches else np.empty(0)
        low, high = pooled_interval(np.nan if value is None else value, without_one, confidence, least=-1.0)
        results[method] = ConsistencyResult(value, by_text[method], low, high)
    return results


def measure(context: Context, columns: MetricColumns) -> None:
    """Add consistency, for methods whose model has hidden states."""
    params = context.params
    for model in context.models:
        if model.states is None:
            continue
        results = consistency(
            model.states,
            {method: [text.filled(0.0) for text in texts] for method, texts in model.attributions.items()},
            params.consistency_batch,
            params.confidence,
            context.seed,
        )
        for method, result in results.items():
            columns.by_text["consistency"][method] = result.by_text
            columns.figures[method] |= {
                "consistency": result.value,
                "consistency_low": result.low,
                "consistency_high": result.high,
            }
