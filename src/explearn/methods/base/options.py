"""Checks of constructor arguments that several methods share."""

from __future__ import annotations

from collections.abc import Sequence

from explearn.core.arguments import shown
from explearn.core.errors import ParamsError
from explearn.core.settings import LARGEST_SEED, MOST_ROUNDS


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise ParamsError unless `value` is one of `choices`."""
    if value not in choices:
        raise ParamsError(f"{name}: got {value!r}; expected one of {', '.join(choices)}")


def check_count(name: str, value: int, least: int = 1, most: int = MOST_ROUNDS) -> None:
    """Raise ParamsError unless `value` is a whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ParamsError(f"{name}: got {value!r}; expected a whole number of at least {least}")
    if value > most:
        raise ParamsError(f"{name}: got {value!r}; expected a whole number of at most {most:,}")


def check_layer(name: str, value: int) -> None:
    """Raise ParamsError unless `value` is a whole number; whether a model has that layer is checked with the model."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ParamsError(f"{name}: got {value!r}; expected a layer's number, from 0, or from the end when negative")


def check_flag(name: str, value: bool) -> None:
    """Raise ParamsError unless `value` is true or false."""
    if not isinstance(value, bool):
        raise ParamsError(f"{name}: got {value!r}; expected true or false")


def check_seed(seed: int) -> None:
    """Raise ParamsError unless NumPy can be seeded with `seed`."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= LARGEST_SEED:
        raise ParamsError(f"seed: got {shown(seed)}; expected a whole number from 0 to {LARGEST_SEED}")
