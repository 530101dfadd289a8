"""What a fingerprint of a function of texts is made from: a version, the state of an estimator, or answers."""

from __future__ import annotations

import copyreg
import hashlib
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

CACHES = ("_stop_words_id", "_sklearn_version", "cv_results_", "refit_time_")
"""Attributes of scikit-learn's estimators that do not decide what they predict: an address, a version, times."""

PLAIN = (str, bytes, bool, int, float, complex, type(None))
"""Types whose values `repr` tells apart, in every process."""

PROBE = (
    "A warm, funny and wholly unnecessary sequel.",
    "Slow and dull; I want my money back!",
    "The app crashes when I open it on my new phone, please help.",
    "Could you add a dark mode and an export to CSV?",
    "Thanks, the delivery was fast and everything works.",
    "I was charged twice this month and would like a refund.",
    "The keeper saved two penalties and sent her club to the final.",
    "The minister called an election after the budget was rejected.",
    "A trial drug for heart disease keeps its promise, doctors say.",
    "Shares fell by 12.5 % as the bank raised interest rates.",
    "You are all idiots and should be ashamed of yourselves.",
    "Not bad at all, although nobody expected much.",
    "How do I reset the password of my account?",
    "WIN a FREE prize now, click http://example.org before 2030!!!",
    "The scientists launched a telescope into orbit around the sun.",
    "Our room was dirty, the staff rude, the breakfast cold.",
    "My cat sleeps on the keyboard all day long.",
    "The contract ends on 31 December unless it is renewed in writing.",
    "She plays the violin in a small orchestra near Vienna.",
    "This is wrong: no error message, no answer, nothing.",
    "Der Film war lang, aber schön.",
    "El servicio fue excelente y la comida también.",
    "La livraison est arrivée en retard et le colis était cassé.",
    "ok",
)
"""Texts whose answers are the fingerprint of a function of which nothing else is known."""


class NoValue(Exception):
    """An object whose state says nothing of what it does, such as a lambda."""


def is_estimator(thing: object) -> bool:
    """Return whether something is an estimator as scikit-learn defines them, so that its state decides its answers."""
    return hasattr(thing, "get_params") and hasattr(thing, "fit")


def state_digest(estimator: object) -> str:
    """Return SHA-256 of an estimator's parameters and fitted attributes, those of estimators in it included.

    It depends on values alone: an estimator has the same in every process, and after it was saved and loaded. That
    does not hold for `joblib.hash`, which depends on which objects are shared. Functions and classes count by name.

    Args:
        estimator: the estimator.

    Raises:
        NoValue: something in it has no such state.
    """
    digest = hashlib.sha256()
    _add(estimator, digest.update, set())
    return digest.hexdigest()


def _add(value: Any, update: Callable[[bytes], None], inside: set[int]) -> None:
    """Hash a value; `inside` has the ids of the objects that it is in."""
    kind = type(value)
    update(f"<{kind.__name__} ".encode())
    if kind in PLAIN:
        update(repr(value).encode())
    elif isinstance(value, np.generic):
        update(value.tobytes())
    elif kind is np.ndarray:
        _add_array(value, update, inside)
    elif isinstance(value, type | FunctionType | BuiltinFunctionType):
        if "<" in value.__qualname__:
            raise NoValue(f"{value.__qualname__} has no name")
        update(value.__qualname__.encode())
    elif id(value) in inside:
        raise NoValue(f"{kind.__name__} holds itself")
    else:
        inside.add(id(value))
        for part in _parts(value):
            _add(part, update, inside)
        inside.remove(id(value))
    update(b">")


def _add_array(array: np.ndarray[Any, Any], update: Callable[[bytes], None], inside: set[int]) -> None:
    """Hash an array, a structured one by its fields, without the bytes between them."""
    update(f"{array.dtype} {array.shape} ".encode())
    if array.dtype.names is not None:
        for name in array.dtype.names:
            _add_array(array[name], update, inside)
    elif array.dtype.hasobject:
        _add(array.tolist(), update, inside)
    else:
        update(array.tobytes())


def _parts(value: Any) -> list[Any]:
    """Return the values that an object consists of; sets and dictionaries in an order of their own."""
    if type(value) in (list, tuple):
        return list(value)
    if type(value) in (set, frozenset):
        return sorted(value, key=repr)
    if isinstance(value, dict):
        names = [name for name in value if name not in CACHES]
        return [(name, value[name]) for name in sorted(names, key=repr)]
    try:
        reduce = copyreg.dispatch_table.get(type(value))  # of regular expressions and others
        reduced = reduce(value) if reduce else value.__reduce_ex__(4)
    except Exception as error:  # whatever an object of somebody else may raise
        raise NoValue(f"{type(value).__name__} cannot be saved") from error
    if isinstance(reduced, str):
        return [reduced]
    make, arguments, state, items, entries = (*reduced, None, None, None)[:5]
    return [make, arguments, state, list(items or ()), dict(entries or ())]
