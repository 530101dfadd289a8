"""Types of arrays, by what is in them."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Numbers."""

Array32 = NDArray[np.float32]
"""Numbers in single precision, as scores are kept."""

Counts = NDArray[np.int64]
"""Counts, or indices."""

Mask = NDArray[np.bool_]
"""True for what is chosen."""
