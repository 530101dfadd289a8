"""Types of arrays, by what is in them."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
"""Numbers."""

Array32 = NDArray[np.float32]
"""Numbers in single precision, as scores are kept."""

Counts = NDArray[np.int64]
"""Counts, or indices."""

Mask = NDArray[np.bool_]
"""True for what is chosen."""


def as_numbers(values: ArrayLike) -> Array:
    """Return real numbers as float64, with NaN where a masked array, or one in a list, has none.

    Raises:
        TypeError: complex numbers, or what is not a number.
        ValueError: rows of different lengths, or text that is not a number.
    """
    array = np.asarray(values)
    if np.iscomplexobj(array):
        raise TypeError("got complex numbers; expected real ones")
    if type(values) is np.ndarray:
        return array.astype(np.float64)
    return np.asarray(np.ma.filled(np.ma.asarray(values, dtype=np.float64), np.nan))
