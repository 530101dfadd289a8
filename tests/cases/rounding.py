"""Equality up to rounding: a tolerance from the type of the numbers and their scale, the same on every processor."""

import numpy as np
import torch

ROUNDINGS = 128
"""Units in the last place, of the largest number, by which two ways to compute a result may differ in tiny
classifiers: three layers of sums over up to fifty terms, forward and backward."""


def tolerance(scale=1.0, dtype=torch.float32, roundings=ROUNDINGS):
    """Return the largest difference that rounding explains between numbers of up to `scale`."""
    return roundings * torch.finfo(dtype).eps * scale


def assert_close(actual, expected, dtype=None, roundings=ROUNDINGS):
    """Check two arrays of one shape for equality up to rounding at the scale of the largest expected number.

    dtype: in which the results were computed (default: that of `actual`; of arrays that NumPy holds, float32).
    """
    if dtype is None:
        dtype = actual.dtype if isinstance(actual, torch.Tensor) else torch.float32
    actual, expected = (
        np.asarray(each.detach() if isinstance(each, torch.Tensor) else each) for each in (actual, expected)
    )
    assert actual.shape == expected.shape
    scale = float(np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance(scale, dtype, roundings))
