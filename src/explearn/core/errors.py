"""Errors for the person who can fix them: one sentence that says what is wrong, where, and what was expected."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from explearn.core.visible import visible


def first_line(error: BaseException) -> str:
    """The first line of an error's text that is not blank, else its type; some libraries' errors have many."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


class ExplearnError(Exception):
    """Base of every error that a user can fix; commands print it as one sentence and exit with `exit_code`."""

    exit_code = 2

    def __str__(self) -> str:
        """The message, safe to print: what it repeats of a file or a server may hold a terminal's commands."""
        return visible(super().__str__())


class DataError(ExplearnError):
    """Input data that cannot be used; the message names file, row and field, and what was expected."""


class ParamsError(ExplearnError):
    """A parameter or option with a value that cannot be used."""


class UnknownNameError(ExplearnError):
    """A name (explainer, task, adapter, ...) that is not known; the message suggests near ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}."
        super().__init__(f"unknown {kind} {name!r}; {hint}")


class DeviceError(ExplearnError):
    """A device or precision that this machine does not have."""


class ModelError(ExplearnError):
    """Weights, a tokenizer or an architecture that cannot be used."""


class UnsupportedError(ExplearnError):
    """A method that cannot explain this model or text; the message gives the reason and what could be used instead."""
