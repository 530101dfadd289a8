"""Arithmetic on arrays with undefined entries."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike, NDArray


def ratio(numerator: ArrayLike, denominator: ArrayLike, undefined: float = np.nan) -> NDArray[np.float64]:
    """Quotients, and `undefined` where the denominator is not above 0."""
    above, below = np.broadcast_arrays(np.asarray(numerator, dtype=np.float64), np.asarray(denominator))
    return np.asarray(np.divide(above, below, out=np.full(above.shape, undefined), where=below > 0))


def ranks(values: ArrayLike, axis: int | None = None) -> NDArray[np.float64]:
    """Ranks from 1 along an axis (default: of all values), equal values sharing the mean of theirs; shape as given."""
    # scipy.stats takes half a second to load; importing this module should not.
    from scipy.stats import rankdata

    return np.asarray(rankdata(values, axis=axis))


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """Mean of the values that are not None; None where all are."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
