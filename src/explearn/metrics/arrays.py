"""Arithmetic on word scores, and on arrays with undefined entries."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.arrays import Array, as_numbers
from explearn.core.errors import DataError

TOLERANCE = 1e-9
"""Relative; the mean of equal scores may differ from them by rounding."""

RESOLUTION = float(np.finfo(np.float32).eps)
"""Relative; float32, in which classifiers answer, cannot tell numbers apart that differ by less."""


def ratio(numerator: ArrayLike, denominator: ArrayLike, undefined: float = np.nan) -> Array:
    """Divide, with `undefined` where the denominator is not above 0."""
    above, below = np.broadcast_arrays(np.asarray(numerator, dtype=np.float64), np.asarray(denominator))
    return np.asarray(np.divide(above, below, out=np.full(above.shape, undefined), where=below > 0))


def ranks(values: ArrayLike) -> Array:
    """Return ranks from 1 along the last axis, with mean ranks for ties; same shape."""
    # scipy.stats takes half a second to load; importing this module should not.
    from scipy.stats import rankdata

    return np.asarray(rankdata(values, axis=-1))


def without_rounding(differences: ArrayLike, scale: ArrayLike = 1.0) -> Array:
    """Return differences for a test of their ranks: those that float32 cannot tell apart are ties.

    Sizes that differ by no more than RESOLUTION become equal, and those that do not differ from 0 become 0.

    Args:
        differences: differences, compared along the last axis, (.., n), NaN where undefined.
        scale: size of the numbers of which they are differences, such as 1 for probabilities; or of each row, (.., 1).

    Example:
        >>> without_rounding([0.3, 0.1 + 0.2, -0.1, 1e-18, 0.5]).tolist()
        [0.3, 0.3, -0.1, 0.0, 0.5]
    """
    values = np.asarray(differences, dtype=np.float64)
    order = np.argsort(np.abs(values), axis=-1)
    sizes = np.take_along_axis(np.abs(values), order, axis=-1)
    apart = np.diff(sizes, axis=-1, prepend=0.0) > np.asarray(scale) * RESOLUTION
    tied = np.maximum.accumulate(np.where(apart, sizes, 0.0), axis=-1)
    rounded = np.empty_like(values)
    np.put_along_axis(rounded, order, tied, axis=-1)
    return np.asarray(np.sign(values) * rounded)


def correlation(first: ArrayLike, second: ArrayLike) -> Array:
    """Return Pearson's correlation along the last axis, broadcasting the others; NaN where one side is constant.

    For ranks this is Spearman's rho.
    """
    a = np.asarray(first)
    b = np.asarray(second)
    a = a - a.mean(axis=-1, keepdims=True)
    b = b - b.mean(axis=-1, keepdims=True)
    return ratio((a * b).sum(axis=-1), np.sqrt((a * a).sum(axis=-1) * (b * b).sum(axis=-1)))


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None; None if all are."""
    defined = [value for value in values if value is not None]
    return fmean(defined) if defined else None


def mean_where_defined(values: Array) -> float | None:
    """Return the mean without NaN; None if all values are NaN."""
    defined = values[~np.isnan(values)]
    return float_or_none(defined.mean()) if defined.size else None


def float_or_none(value: float) -> float | None:
    """Convert a number for a JSON document: None for NaN."""
    return None if np.isnan(value) else float(value)


def check_scores(scores: ArrayLike) -> Array:
    """Return the scores as float64, shape (n,); raise DataError unless there is at least one and all are finite."""
    array = as_numbers(scores)
    if array.ndim != 1 or array.size == 0:
        raise DataError(f"scores have shape {array.shape}; expected one score a word, for at least one word")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise DataError(f"word {bad[0]} has score {array[bad[0]]}; expected finite scores")
    return array


def levels(scores: ArrayLike, signed: bool) -> NDArray[np.int8]:
    """Return L2E's levels h: 2 high positive, 1 low positive, 0 neutral, -1 low negative, -2 high negative.

    Positive (negative) scores are high if at least as far from 0 as the mean of the text's positive (negative) scores;
    a score of 0 is neutral. For unsigned scores (`signed` False), nearly all of which are positive, only high positive
    ones are kept and all others are neutral, as L2E does for LRP (table 3).

    Returns:
        int8, shape (n,).

    Raises:
        DataError: a score is not finite.
    """
    values = check_scores(scores)
    level = np.zeros(len(values), dtype=np.int8)
    signs = (1, -1) if signed else (1,)
    for sign in signs:
        same_sign = sign * values > 0
        if same_sign.any():
            high = same_sign & (sign * values >= (sign * values[same_sign]).mean() * (1 - TOLERANCE))
            if signed:
                level[same_sign] = sign
            level[high] = 2 * sign
    return level
