"""Checks of constructor arguments that several methods share."""

from __future__ import annotations

from collections.abc import Sequence

from explearn.core.errors import ParamsError


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise ParamsError unless `value` is one of `choices`."""
    if value not in choices:
        raise ParamsError(f"{name}: got {value!r}; expected one of {', '.join(choices)}")


def check_count(name: str, value: int, least: int = 1) -> None:
    """Raise ParamsError unless `value` is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ParamsError(f"{name}: got {value!r}; expected a whole number of at least {least}")
