"""How a check fails: with a sentence that says what was found and what was expected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


def expect(holds: object, message: str) -> None:
    """Raise AssertionError with a message unless something holds."""
    if not holds:
        raise AssertionError(message)


def expect_equal(got: object, wanted: object, what: str) -> None:
    """Raise AssertionError unless two values are equal."""
    expect(got == wanted, f"{what} is {got!r}; expected {wanted!r}")


def expect_close(got: Any, wanted: Any, tolerance: float, what: str) -> None:
    """Raise AssertionError unless numbers have the same shape and differ by at most `tolerance`."""
    same = np.shape(got) == np.shape(wanted) and np.allclose(got, wanted, rtol=1e-7, atol=tolerance, equal_nan=True)
    expect(same, f"{what} is {np.asarray(got).tolist()}; expected {np.asarray(wanted).tolist()}")


@contextmanager
def about(what: str) -> Iterator[None]:
    """Begin the message of an AssertionError with what it is about."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from error
