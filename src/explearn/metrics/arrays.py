"""Arithmetic on arrays with undefined entries."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike, NDArray


def ratio(numerator: ArrayLike, denominator: ArrayLike, undefined: float = np.nan) -> NDArray[np.float64]:
    """Divide, with `undefined` where the denominator is not above 0."""
    above, below = np.broadcast_arrays(np.asarray(numerator, dtype=np.float64), np.asarray(denominator))
    return np.asarray(np.divide(above, below, out=np.full(above.shape, undefined), where=below > 0))


def ranks(values: ArrayLike) -> NDArray[np.float64]:
    """Return ranks from 1 along the last axis, with mean ranks for ties; same shape."""
    # scipy.stats takes half a second to load; importing this module should not.
    from scipy.stats import rankdata

    return np.asarray(rankdata(values, axis=-1))


def correlation(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
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


def mean_where_defined(values: NDArray[np.float64]) -> float | None:
    """Return the mean without NaN; None if all values are NaN."""
    defined = values[~np.isnan(values)]
    return float_or_none(defined.mean()) if defined.size else None


def float_or_none(value: float) -> float | None:
    """Convert a number for a JSON document: None for NaN."""
    return None if np.isnan(value) else float(value)
