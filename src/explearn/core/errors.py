"""Errors for the person who can fix them: one sentence that says what is wrong, where, and what was expected."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from explearn.core.escape import printable

SHOWN_CHARS = 80
"""Most characters of a value that an error repeats."""

MOST_NAMED = 5
"""Most texts, or methods, that a sentence names."""

MOST_CHARS = 800
"""Most characters of an error message; the middle of a longer one is left out."""

SAVED = "expected a folder as save_pretrained writes"
"""End of the sentence about a model that cannot be loaded."""


class ExplearnError(Exception):
    """Base of every error that a user can fix; commands print it as one sentence and exit with `exit_code`.

    Example:
        >>> import explearn
        >>> try:
        ...     explearn.get_explainer("rolout")
        ... except explearn.ExplearnError as error:
        ...     print(error)
        unknown method 'rolout'; did you mean rollout?
    """

    exit_code = 2

    def __str__(self) -> str:
        """Return the message, shortened and safe to print.

        Text that it repeats from a file or server may hold terminal codes.
        """
        return printable(cut(super().__str__()))


class DataError(ExplearnError):
    """Input data that cannot be used; the message names file, row and field, and what was expected."""


class ParamsError(ExplearnError):
    """A parameter or option with a value that cannot be used."""


@contextmanager
def located(where: str) -> Iterator[None]:
    """Put file, row or field before the message of a DataError or ParamsError that the block raises."""
    try:
        yield
    except (DataError, ParamsError) as error:
        raise type(error)(f"{where}{error}") from error


class UnknownNameError(ExplearnError):
    """An unknown name (method, task, adapter, ...); the message suggests similar ones."""

    def __init__(self, kind: str, name: str, names: Iterable[str]) -> None:
        names = sorted(names)
        near = difflib.get_close_matches(str(name), names, n=3, cutoff=0.5)
        hint = f"known: {', '.join(names)}."
        if near:
            hint = f"did you mean {' or '.join(near)}?"
        super().__init__(f"unknown {kind} {shown(name)}; {hint}")


class DeviceError(ExplearnError):
    """A device or precision that this machine does not have."""


class ModelError(ExplearnError):
    """Weights, a tokenizer or an architecture that cannot be used."""


class UnansweredError(ModelError):
    """A text to which a classifier gives no answer, such as a prompted language model that refuses it."""


class UnsupportedError(ExplearnError):
    """A method that cannot explain this model or text; the message gives the reason and an alternative."""


class MethodError(UnsupportedError):
    """A method of another package that failed, or that gave something else than scores."""


@contextmanager
def blaming(module: str | None, what: str, error: type[ExplearnError], after: str = "") -> Iterator[None]:
    """Turn whatever the code of others raises in the block, also SystemExit, into `error`: "WHAT (KIND: message)".

    Errors of Explearn's own modules pass, since they are bugs, and so do an ExplearnError, a lack of memory and Ctrl+C.

    Args:
        module: module of the code.
        what: whose code it is, and what failed.
        error: class of the error to raise.
        after: end of its message, such as what the reader can do.
    """
    try:
        yield
    except (ExplearnError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as problem:
        kind = type(problem).__name__
        own = (module or "").partition(".")[0] in ("explearn", "explearn_study", "explearn_apps")
        if own or kind == "OutOfMemoryError":  # of torch, which is not imported here
            raise
        reason = first_line(problem)
        if not reason.startswith(kind):
            reason = f"{kind}: {reason}"
        raise error(f"{what} ({reason}){after}") from problem


def cut(sentence: str) -> str:
    """Shorten a sentence to about MOST_CHARS characters by leaving out its middle."""
    if len(sentence) <= MOST_CHARS:
        return sentence
    half = MOST_CHARS // 2
    return f"{sentence[:half]} ... {sentence[-half:]}"


# ---- parts of sentences ----------------------------------------------------------------------------------------------


def kind_of(value: object) -> str:
    """Return the name of a value's type, "nothing" for None."""
    if value is None:
        return "nothing"
    return type(value).__name__


def shown(value: object) -> str:
    """Format a value for an error message: plain values as in Python, shortened; for others the type's name."""
    if isinstance(value, int) and abs(value) >= 10**18:
        return "a huge number"
    if not isinstance(value, str | bytes | int | float | list | tuple | dict):
        return kind_of(value)
    text = repr(value)
    if len(text) > SHOWN_CHARS:
        return f"{text[:SHOWN_CHARS]}..."
    return text


def listed(names: Collection[str], most: int = MOST_NAMED) -> str:
    """Join names for a sentence, such as "a, b and c"; of more than `most` names, such as "a, b and 7 more"."""
    named = list(names)
    if len(named) > most:
        named[most - 1 :] = [f"{len(named) - most + 1:,} more"]
    if len(named) < 2:
        return "".join(named)
    return f"{', '.join(named[:-1])} and {named[-1]}"


def first_line(error: BaseException) -> str:
    """Return the first non-blank line of an error's message; some libraries' messages have many.

    The type comes first if Python's message says little without it ("KeyError: 'weight'").
    """
    line = str(error).strip().partition("\n")[0].strip()
    if not line:
        return type(error).__name__
    if isinstance(error, LookupError | TypeError | AttributeError | ArithmeticError | AssertionError):
        return f"{type(error).__name__}: {line}"
    return line


_NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
"""Parts of torch's and other libraries' messages about lack of memory."""


def sentence_of(error: BaseException) -> str | None:
    """Explain an error of the machine (disk, permission, memory), for the person who can fix it.

    Returns:
        None for any other error: that is a bug, and its traceback must be shown.
    """
    if isinstance(error, OSError) and error.errno:
        reason = os.strerror(error.errno)
        files = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
        if not files:
            return f"the system refused ({reason})"
        return f"{cut(' and '.join(files))}: cannot be used ({reason})"
    no_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    if no_memory or any(words in str(error).lower() for words in _NO_MEMORY):
        return f"not enough memory ({first_line(error)}); use fewer texts, smaller sizes or a lower EXPLEARN_MAX_TOKENS"
    return None
