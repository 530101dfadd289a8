"""Errors for the person who can fix them: one sentence that says what is wrong, where, and what was expected."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from explearn.core.escape import printable

SHOWN_CHARS = 80
"""Most characters of a value that an error repeats."""

MOST_CHARS = 2000
"""Most characters of an error's sentence; of a longer one the middle is left out."""

SAVED = "expected a folder as save_pretrained writes"
"""End of the sentence about a model that cannot be loaded."""


class ExplearnError(Exception):
    """Base of every error that a user can fix; commands print it as one sentence and exit with `exit_code`."""

    exit_code = 2

    def __str__(self) -> str:
        """Return the message, safe to print: what it repeats of a file or a server may steer a terminal, or be long."""
        return printable(cut(super().__str__()))


class DataError(ExplearnError):
    """Input data that cannot be used; the message names file, row and field, and what was expected."""


class ParamsError(ExplearnError):
    """A parameter or option with a value that cannot be used."""


@contextmanager
def located(place: str) -> Iterator[None]:
    """Put a place before the sentence of a DataError or a ParamsError that the block raises."""
    try:
        yield
    except (DataError, ParamsError) as error:
        raise type(error)(f"{place}{error}") from error


class UnknownNameError(ExplearnError):
    """A name (explainer, task, adapter, ...) that is not known; the message suggests near ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) if isinstance(name, str) else []
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}."
        super().__init__(f"unknown {kind} {shown(name)}; {hint}")


class DeviceError(ExplearnError):
    """A device or precision that this machine does not have."""


class ModelError(ExplearnError):
    """Weights, a tokenizer or an architecture that cannot be used."""


class UnsupportedError(ExplearnError):
    """A method that cannot explain this model or text; the message gives the reason and what could be used instead."""


def cut(sentence: str) -> str:
    """Return a sentence of at most about MOST_CHARS characters: of a longer one the middle is left out."""
    half = MOST_CHARS // 2
    return sentence if len(sentence) <= MOST_CHARS else f"{sentence[:half]} ... {sentence[-half:]}"


# ---- parts of sentences ----------------------------------------------------------------------------------------------


def kind_of(value: object) -> str:
    """Return the name of a value's type, "nothing" for None."""
    return "nothing" if value is None else type(value).__name__


def shown(value: object) -> str:
    """Return a value as an error repeats it: plain values as Python writes them, cut; of others the type's name."""
    if isinstance(value, int) and abs(value) >= 10**18:
        return "a huge number"
    text = repr(value) if isinstance(value, str | bytes | int | float | list | tuple | dict) else kind_of(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text that is not blank; some libraries' errors have many.

    The type comes before it where Python's own words say little without ("KeyError: 'weight'").
    """
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    bare = isinstance(error, LookupError | TypeError | AttributeError | ArithmeticError | AssertionError)
    return f"{type(error).__name__}: {line}" if bare and line else line or type(error).__name__


_NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
"""Parts of the messages of torch's and other libraries' errors for lack of memory."""


def sentence_of(error: BaseException) -> str | None:
    """Return what an error of the machine (disk, permission, memory) means, for the person who can mend it.

    None for any other error: that is a fault of the program, and its traceback has to be seen.
    """
    if isinstance(error, OSError) and error.errno:
        files = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
        reason = os.strerror(error.errno)
        return f"{cut(' and '.join(files))}: cannot be used ({reason})" if files else f"the system refused ({reason})"
    no_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    if no_memory or any(words in str(error).lower() for words in _NO_MEMORY):
        said = f"memory does not suffice ({first_line(error)})"
        return f"{said}; take fewer texts, smaller sizes or a lower EXPLEARN_MAX_TOKENS"
    return None
